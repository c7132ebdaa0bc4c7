"""An amount of memory as a range with its basis: what it will be, at least and at most, and why."""

import msgspec

GIB = 1 << 30


class Amount(msgspec.Struct, frozen=True):
    """Bytes; ``basis`` says in words where they come from."""

    low_bytes: int
    bytes: int
    high_bytes: int
    basis: str

    @classmethod
    def around(cls, expected: float, spread: float, basis: str) -> "Amount":
        """An amount that may be off by a ratio to either side."""
        return cls(round(expected * (1 - spread)), round(expected), round(expected * (1 + spread)), basis)

    @classmethod
    def exact(cls, expected: float, basis: str) -> "Amount":
        """An amount that arithmetic gives."""
        return cls(round(expected), round(expected), round(expected), basis)


def together(amounts: list[Amount], basis: str) -> Amount:
    """The sum; parts that are off are taken to be off together, which is the cautious side."""
    return Amount(
        sum(one.low_bytes for one in amounts),
        sum(one.bytes for one in amounts),
        sum(one.high_bytes for one in amounts),
        basis,
    )


def gib(amount: float) -> str:
    """Bytes for people."""
    return f"{amount / GIB:.1f} GiB"
