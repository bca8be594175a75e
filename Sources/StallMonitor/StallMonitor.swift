import LoopEngine
