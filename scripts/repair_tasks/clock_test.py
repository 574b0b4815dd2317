from clock import between, parse, show

assert parse("7:05") == 425
assert show(425) == "07:05", "minutes have two digits"
assert show(25 * 60) == "01:00"
assert between("23:30", "00:15") == 45
