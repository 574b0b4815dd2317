"""A bank account that counts in cents."""


class Account:
    def __init__(self, owner, limit=0):
        self.owner = owner
        self.limit = limit  # how far below zero it may go
        self.balance = 0
        self.history = []

    def deposit(self, cents):
        if cents <= 0:
            raise ValueError("a deposit must be positive")
        self.balance += cents
        self.history.append(("deposit", cents))

    def withdraw(self, cents):
        """Takes money out; refused if the balance would go below the limit."""
        if self.balance - cents < -self.limit:
            raise ValueError("not enough money")
        self.balance -= cents
        self.history.append(("withdraw", cents))

    def transfer(self, other, cents):
        """Moves money to another account."""
        self.withdraw(cents)
        other.deposit(cents)
