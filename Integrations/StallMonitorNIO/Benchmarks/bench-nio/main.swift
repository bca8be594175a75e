import NIOPosix

print(1)
