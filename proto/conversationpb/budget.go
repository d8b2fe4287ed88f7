package conversationpb

// What a turn does when its budget is reached (Budget.on_reach).
const (
	OnReachPause = "pause" // a turn that is cut short waits to be continued
	OnReachStop  = "stop"
)
