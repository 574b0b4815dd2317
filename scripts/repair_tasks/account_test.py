from account import Account

ann, bob = Account("Ann", limit=100), Account("Bob")
ann.deposit(500)
ann.transfer(bob, 200)
assert (ann.balance, bob.balance) == (300, 200), "what is transferred arrives at the other account"
ann.withdraw(400)
assert ann.balance == -100
assert bob.history == [("deposit", 200)]
