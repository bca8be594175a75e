#error("LoopEngine needs Linux: it is built on epoll, eventfd and timerfd. Import it under #if os(Linux).")
