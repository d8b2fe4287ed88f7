package task

import "parley/proto/taskpb"

// Drive works on the open run of a task, or, when it waits, looks what became of its turn. It replaces what drives an
// earlier run of the task, and leaves alone what drives this one alike. The state is shared: read only.
type Drive struct {
	Task *taskpb.State
}

// Post tells the task's callback address where the task is. What came of it is told with a deliverypb.Report.
type Post struct {
	TaskID, URL string
	TenantID    string
	Callback    *taskpb.Callback // as it is tried now; shared: read only
}
