# shellcheck shell=bash
# A Duo host without root login: `ops` (password secret, sudo with password), `free` (key, sudo without), `dk` (docker
# group, key only), `guest`.
. "$LAB_KINDS/duo.sh"
root=$1
chroot "$root" sh -c 'groupadd -f docker
useradd -m -s /bin/bash ops
useradd -m -s /bin/bash -G docker -p "*" dk
useradd -m -s /bin/bash -p "*" guest
useradd -m -s /bin/bash -p "*" free
echo "free ALL=(ALL) NOPASSWD: ALL" >/etc/sudoers.d/free
chmod 440 /etc/sudoers.d/free
echo ops:secret | chpasswd
echo "ops ALL=(ALL) ALL" >/etc/sudoers.d/ops
chmod 440 /etc/sudoers.d/ops'
for user in dk free guest; do
    mkdir -p "$root/home/$user/.ssh"
    cp "$LAB_KEY.pub" "$root/home/$user/.ssh/authorized_keys"
done
printf 'PasswordAuthentication yes\nPermitRootLogin no\n' >"$root/etc/lab-sshd-options"
