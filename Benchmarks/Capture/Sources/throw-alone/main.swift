import CxxThrow

// The exceptions of a program that does not link the monitor.
_ = throws_per_second(0.02)
print(throws_per_second(0.08))
