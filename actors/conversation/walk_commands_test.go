package conversation_test

import (
	"slices"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"parley/proto/agentpb"
	"parley/proto/conversationpb"
)

// Draws favour what stands first: that is what leads on.

// generator makes commands of one kind. How often it is asked depends on what the conversation is at.
type generator struct {
	idle, running, waiting, none int // weights
	cut                          int // at least, where idle after a turn that can be continued
	make                         func(c *conversationpb.Command)
}

// command is a random command: mostly one that makes sense now, at times one that does not.
func (w *walk) command() *conversationpb.Command {
	t := w.t
	c := &conversationpb.Command{ConversationId: "conv_1"}
	if rapid.Bool().Draw(t, "with id") {
		c.CommandId = rapid.SampledFrom([]string{"k1", "k2", "k3", "k4", "k5", "k6"}).Draw(t, "command id")
	}
	c.Caller = &conversationpb.Caller{TenantId: "t", ProjectId: "p", UserId: "a/n%n", Identified: true}
	w.behalf(c)
	if rapid.IntRange(0, 49).Draw(t, "stranger") == 33 {
		c.Caller = rapid.SampledFrom([]*conversationpb.Caller{
			{TenantId: "t", ProjectId: "p", UserId: "bob", Identified: true},
			{TenantId: "t", ProjectId: "p", Trusted: true},
			{TenantId: "t", ProjectId: "p"},
			nil,
		}).Draw(t, "caller")
	}
	var choice []func(c *conversationpb.Command)
	for _, g := range slices.Concat(w.turnCommands(), w.lifeCommands(), w.holdCommands()) {
		weight := g.none
		switch w.state().GetStatus() {
		case conversationpb.Status_IDLE:
			weight = g.idle
			if w.state().GetContinuable() {
				weight = max(weight, g.cut)
			}
		case conversationpb.Status_RUNNING:
			weight = g.running
		case conversationpb.Status_WAITING:
			weight = g.waiting
		default: // there is none
		}
		for range weight {
			choice = append(choice, g.make)
		}
	}
	if w.state() != nil && rapid.IntRange(0, 5).Draw(t, "content") == 1 {
		choice = w.contentCommands()
	}
	rapid.SampledFrom(choice).Draw(t, "command")(c)
	switch c.GetBody().(type) {
	case *conversationpb.Command_Send, *conversationpb.Command_Edit, *conversationpb.Command_Hold, *conversationpb.Command_Cancel:
		if c.Opening == nil && rapid.IntRange(0, 5).Draw(t, "opens") == 3 {
			w.opening(c)
		}
	}
	return c
}

// opening has a command open with what makes its conversation, or adds files.
func (w *walk) opening(c *conversationpb.Command) {
	opening := &conversationpb.Opening{}
	if rapid.Bool().Draw(w.t, "makes") {
		opening.Create = &conversationpb.Create{Agent: w.agent(), Budget: w.budget(), FirstMessage: "hi"}
	}
	if rapid.Bool().Draw(w.t, "brings") {
		added := w.addFile()
		opening.Files, opening.Agent = []*conversationpb.File{added.GetFile()}, added.GetAgent()
	}
	c.Opening = opening
}

func (w *walk) agent() *agentpb.Agent {
	agent := &agentpb.Agent{Id: "a/1", Model: &agentpb.Model{}}
	if rapid.IntRange(0, 5).Draw(w.t, "unpriced") != 3 {
		agent.Model.Price = &agentpb.Price{}
	}
	return w.whole(agent)
}

// lifeCommands are those of a conversation in which only text is said.
func (w *walk) lifeCommands() []generator {
	t := w.t
	return []generator{
		{none: 9, make: func(c *conversationpb.Command) {
			c.Body = &conversationpb.Command_Create{Create: &conversationpb.Create{Agent: w.agent(), Budget: w.budget()}}
		}},
		{none: 5, make: func(c *conversationpb.Command) {
			c.Opening = &conversationpb.Opening{Create: &conversationpb.Create{Agent: w.agent(), Budget: w.budget()}}
			c.Body = &conversationpb.Command_Send{Send: &conversationpb.Send{Agent: w.agent(), Content: "hi", Wait: rapid.Bool().Draw(t, "wait")}}
		}},
		{idle: 9, running: 7, waiting: 2, none: 1, make: func(c *conversationpb.Command) {
			send := &conversationpb.Send{
				Agent:    w.agent(),
				Content:  rapid.SampledFrom([]string{"hi", "how are you", "x", "y", "z", "0", "", "\xff"}).Draw(t, "content"),
				Metadata: rapid.SampledFrom([][]byte{nil, []byte(`{"a":1}`), nil, nil, nil, nil, []byte(`[`)}).Draw(t, "metadata"),
				Wait:     rapid.Bool().Draw(t, "wait"),
			}
			ways := []string{"", "queue", "interrupt", "reject"}
			if w.state().GetLease() != nil {
				ways = []string{"queue", "interrupt", "queue", ""}
			}
			send.OnBusy = rapid.SampledFrom(ways).Draw(t, "on busy")
			if rapid.IntRange(0, 3).Draw(t, "to be told") == 1 {
				send.Push = w.push()
			}
			if rapid.IntRange(0, 3).Draw(t, "official") == 2 {
				w.alongside(send)
			}
			c.Body = &conversationpb.Command_Send{Send: send}
		}},
		{idle: 1, running: 2, waiting: 1, make: func(c *conversationpb.Command) {
			cancel := &conversationpb.Cancel{SettleWaitMs: rapid.Int64Range(-1, 60_000).Draw(t, "settle")}
			if rapid.Bool().Draw(t, "of a turn") {
				cancel.RunId = w.run()
			}
			c.Body = &conversationpb.Command_Cancel{Cancel: cancel}
		}},
		{idle: 1, running: 5, waiting: 1, none: 1, make: func(c *conversationpb.Command) {
			c.Body = &conversationpb.Command_Finish{Finish: w.finish()}
		}},
		{idle: 2, running: 1, waiting: 1, cut: 9, make: func(c *conversationpb.Command) {
			c.Body = &conversationpb.Command_Update{Update: &conversationpb.Update{Agent: w.agent(), Patch: w.patch()}}
		}},
		{idle: 1, running: 1, waiting: 1, make: func(c *conversationpb.Command) {
			if rapid.IntRange(0, 5).Draw(t, "really") == 3 {
				c.Body = &conversationpb.Command_Delete{Delete: &conversationpb.Delete{OnlyIdle: rapid.Bool().Draw(t, "only idle")}}
			}
		}},
		{idle: 1, running: 2, waiting: 1, make: func(c *conversationpb.Command) {
			c.Body = &conversationpb.Command_CancelTimeout{CancelTimeout: &conversationpb.CancelTimeout{
				RunId: w.run(), Final: rapid.Bool().Draw(t, "final"),
			}}
		}},
		{idle: 1, running: 3, waiting: 3, make: func(c *conversationpb.Command) {
			c.Body = &conversationpb.Command_SetPush{SetPush: &conversationpb.SetPush{RunId: w.run(), Push: w.push()}}
		}},
		{idle: 3, running: 2, waiting: 3, make: w.pushed},
		{idle: 1, running: 1, waiting: 1, make: func(c *conversationpb.Command) {
			c.Body = &conversationpb.Command_AwaitRun{AwaitRun: &conversationpb.AwaitRun{RunId: w.run()}}
		}},
	}
}

// run is the run of the turn that is active or waits, or another.
func (w *walk) run() string {
	if rapid.IntRange(0, 9).Draw(w.t, "other run") == 3 {
		return rapid.SampledFrom([]string{"run_1", "run_2", "", "run_x"}).Draw(w.t, "run")
	}
	if queue := w.state().GetQueue(); len(queue) > 0 && rapid.IntRange(0, 5).Draw(w.t, "queued run") < 2 {
		return queue[len(queue)-1].GetMessage().GetRunId()
	}
	if paused := w.state().GetPaused(); paused != nil {
		return paused.GetRunId()
	}
	return w.state().GetLease().GetRunId()
}

// epoch is that of the runner: the one under way, one that is over, or not said.
func (w *walk) epoch() uint64 {
	return (w.env.Epoch - rapid.SampledFrom([]uint64{0, 0, 0, 0, 1}).Draw(w.t, "epochs ago")) *
		rapid.SampledFrom([]uint64{1, 1, 0}).Draw(w.t, "says epoch")
}

// usage is of one model call that keeps to what it was granted, up to one step of metering. Without a budget it may be
// anything.
func (w *walk) usage() *conversationpb.Usage {
	t := w.t
	least, most := int64(-5), int64(40)
	if w.state().GetBudget() != nil {
		least, most = 0, w.state().GetLease().GetReservedNanoUsd()+walkSlack
		if spent := w.state().GetSpentNanoUsd() - w.ceiling; spent > 0 {
			most = 0 // no call is made any more
		}
	}
	return &conversationpb.Usage{
		CostNanoUsd: rapid.Int64Range(least, most).Draw(t, "cost"),
		Priced:      rapid.Bool().Draw(t, "was priced"),
		ModelCalls:  rapid.Int32Range(0, 2).Draw(t, "calls"),
		InputTokens: rapid.Int64Range(-1, 9).Draw(t, "tokens"),
		Model:       rapid.SampledFrom([]string{"m/1", "", "m2\xff"}).Draw(t, "model"),
	}
}

func (w *walk) finish() *conversationpb.Finish {
	t := w.t
	finish := &conversationpb.Finish{
		RunId:      w.run(),
		Epoch:      w.epoch(),
		Content:    rapid.SampledFrom([]string{"", "fine", "cut \xff off"}).Draw(t, "answer"),
		StopReason: conversationpb.StopReason(rapid.IntRange(0, 8).Draw(t, "reason")),
		Usage:      w.usage(),
		Error:      &conversationpb.TurnError{Code: "provider_error", Message: "bad \xfe text"},
		Title:      rapid.SampledFrom([]string{"", "", "A title \xff"}).Draw(t, "finish title"),
	}
	if w.state().GetBudget() != nil && rapid.IntRange(0, 3).Draw(t, "budget cuts") == 2 {
		finish.StopReason = conversationpb.StopReason_BUDGET_REACHED
	}
	if finish.GetStopReason() == conversationpb.StopReason_BUDGET_REACHED && rapid.Bool().Draw(t, "has partial") {
		finish.Partial = &conversationpb.Partial{Text: "par\xfft"}
	}
	if finish.GetStopReason() == conversationpb.StopReason_BUDGET_REACHED {
		finish.LimitNanoUsd = rapid.SampledFrom([]int64{0, 1, 20, 1000}).Draw(t, "limit")
		steps := max(w.state().GetLease().GetSteps(), 1) - rapid.Uint32Range(0, 1).Draw(t, "steps")
		finish.Steps = &steps
	}
	return finish
}

func (w *walk) budget() *conversationpb.Budget {
	if rapid.IntRange(0, 2).Draw(w.t, "no budget") < 1 {
		return nil
	}
	return &conversationpb.Budget{
		MaxCostNanoUsd: w.state().GetSpentNanoUsd() + rapid.Int64Range(-1, 100).Draw(w.t, "max"),
		OnReach:        rapid.SampledFrom([]string{"", "pause", "stop", "x"}).Draw(w.t, "on reach"),
	}
}

func (w *walk) patch() *conversationpb.Patch {
	t := w.t
	patch := &conversationpb.Patch{Budget: w.budget()}
	if rapid.Bool().Draw(t, "has title") {
		patch.Title = proto.String(rapid.SampledFrom([]string{"", " x ", "y", "\xff"}).Draw(t, "title"))
	}
	if rapid.Bool().Draw(t, "has pinned") {
		patch.Pinned = proto.Bool(rapid.Bool().Draw(t, "pinned"))
	}
	if rapid.Bool().Draw(t, "has metadata") {
		patch.Metadata = rapid.SampledFrom([][]byte{{}, []byte(`{ "a": 1 }`), []byte(`{`)}).Draw(t, "patch metadata")
	}
	if patch.GetBudget() == nil {
		patch.RemoveBudget = rapid.Bool().Draw(t, "remove")
	}
	return patch
}
