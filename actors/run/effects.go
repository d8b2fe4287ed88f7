package run

import (
	"parley/proto/deliverypb"
	"parley/proto/runpb"
)

// Drive does what the state of a run asks for, step by step, and reports each step, until nothing is to be done or another
// Drive of the same run takes its place. The state is shared: read only.
type Drive struct {
	Run *runpb.State
}

// Post tells the run's callback address of a change of state. What came of it is told with Posted. Both are shared: read
// only.
type Post struct {
	Run  *runpb.State
	Call *deliverypb.Delivery // as it is tried now
}
