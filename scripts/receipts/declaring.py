"""The suite that a declaration of receipts means: what was printed is what is expected."""

from __future__ import annotations

from typing import Any

from drawing import Row, lines_of, rows_of

CHECKS_OF_ALL = ["text", "order", "digits", "no_repetition", "not_truncated"]


def suite_document(declaration: dict[str, Any]) -> dict[str, Any]:
    """``suite.yaml`` as a document."""
    return {
        **declaration["suite"],
        "checks": CHECKS_OF_ALL,
        "cases": [_case(receipt) for receipt in declaration["receipts"]],
    }


def _case(receipt: dict[str, Any]) -> dict[str, Any]:
    rows = rows_of(receipt)
    checks: list[Any] = [{"fields": _fields(receipt, rows)}]
    if receipt.get("arithmetic"):
        checks.append({"arithmetic": receipt["arithmetic"]})
    case = {key: receipt[key] for key in ("id", "group", "title", "language", "numbers")}
    if receipt["language"] in ("en", "id"):
        case["width"] = "keep"  # full-width digits on a Latin receipt are a reader's mistake
    expected = "\n".join(lines_of(rows)) + "\n"
    return {**case, "picture": f"pictures/{receipt['id']}.png", "expected": expected, "checks": checks}


def _fields(receipt: dict[str, Any], rows: tuple[Row, ...]) -> dict[str, Any]:
    items = [(row.columns[0], _amount(rows, index)) for index, row in enumerate(rows) if row.item]
    fields: dict[str, Any] = {}
    if items:
        fields["items"] = {
            "labels": [label for label, _ in items],
            "amounts": [amount for _, amount in items],
        }
    for name, meant in receipt["fields"].items():
        fields[name] = meant if name == "date" else {"label": meant, "amount": _labelled(rows, meant)}
    return fields


def _labelled(rows: tuple[Row, ...], label: str) -> str:
    return next(row.columns[-1] for row in rows if row.columns and row.columns[0] == label)


def _amount(rows: tuple[Row, ...], index: int) -> str:
    """The last column of an item's row, or of the row below when the item stands alone."""
    row = rows[index] if len(rows[index].columns) > 1 else rows[index + 1]
    return row.columns[-1]
