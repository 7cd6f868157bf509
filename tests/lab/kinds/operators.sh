# shellcheck shell=bash
# A Duo host without root login: `ops` (password secret, sudo with password), `dk` (docker group, key only), `guest`.
. "$LAB_KINDS/duo.sh"
root=$1
chroot "$root" sh -c 'groupadd -f docker
useradd -m -s /bin/bash ops
useradd -m -s /bin/bash -G docker -p "*" dk
useradd -m -s /bin/bash -p "*" guest
echo ops:secret | chpasswd
echo "ops ALL=(ALL) ALL" >/etc/sudoers.d/ops
chmod 440 /etc/sudoers.d/ops'
mkdir -p "$root/home/dk/.ssh"
cp "$LAB_KEY.pub" "$root/home/dk/.ssh/authorized_keys"
printf 'PasswordAuthentication yes\nPermitRootLogin no\n' >"$root/etc/lab-sshd-options"
