package conversation_test

import (
	"fmt"

	"pgregory.net/rapid"

	"parley/proto/conversationpb"
)

// turnCommands are those of turns with tools, people and money.
func (w *walk) turnCommands() []generator {
	t := w.t
	return []generator{
		{idle: 1, running: 12, waiting: 2, make: func(c *conversationpb.Command) {
			c.Body = &conversationpb.Command_Progress{Progress: w.progress()}
		}},
		{idle: 1, running: 1, waiting: 14, make: func(c *conversationpb.Command) {
			c.Body = &conversationpb.Command_Resolve{Resolve: w.resolve()}
		}},
		{idle: 1, running: 1, waiting: 6, make: func(c *conversationpb.Command) {
			c.Body = &conversationpb.Command_Answer{Answer: w.answer()}
		}},
		{idle: 3, running: 1, waiting: 1, none: 1, cut: 24, make: func(c *conversationpb.Command) {
			c.Body = &conversationpb.Command_Continue{Continue: &conversationpb.Continue{
				Agent: w.agent(), Wait: rapid.Bool().Draw(t, "wait"),
			}}
		}},
		{idle: 1, running: 1, waiting: 3, none: 1, make: func(c *conversationpb.Command) {
			c.Body = &conversationpb.Command_Due{Due: &conversationpb.Due{}}
		}},
		{idle: 1, running: 1, waiting: 1, make: func(c *conversationpb.Command) {
			c.Repeated = rapid.IntRange(0, 3).Draw(t, "repeated") == 2
			c.Body = &conversationpb.Command_Forget{Forget: &conversationpb.Forget{Tool: w.tool()}}
		}},
	}
}

func (w *walk) tool() string {
	return rapid.SampledFrom([]string{"pay", "mail", "x"}).Draw(w.t, "tool")
}

func (w *walk) turn() *conversationpb.Lease {
	if paused := w.state().GetPaused(); paused != nil {
		return paused
	}
	return w.state().GetLease()
}

// progress is what the runner says: mostly what follows, at times what it has said before, or should not.
func (w *walk) progress() *conversationpb.Progress {
	t, turn := w.t, w.turn()
	progress := &conversationpb.Progress{
		RunId:     w.run(),
		Epoch:     w.epoch(),
		Step:      turn.GetSteps() + rapid.SampledFrom([]uint32{1, 1, 1, 1, 1, 1, 0, 2}).Draw(t, "step"),
		Content:   rapid.SampledFrom([]string{"", "so far"}).Draw(t, "so far"),
		ToolCalls: []*conversationpb.ToolCall{{Id: "c1", Name: "pay", Arguments: `{"n":1}`}},
	}
	var open, doubted []*conversationpb.OpenCall
	for _, call := range turn.GetCalls() {
		switch {
		case call.GetDone():
		case call.GetNeed() == conversationpb.Need_OUTCOME:
			doubted = append(doubted, call)
		default:
			open = append(open, call)
		}
	}
	kind := rapid.SampledFrom([]int{2, 3, 5, 0, 4, 1}).Draw(t, "progress")
	switch {
	case kind == 0:
		progress.Body = &conversationpb.Progress_Reserve{Reserve: &conversationpb.Reserve{
			UptoNanoUsd: rapid.Int64Range(-1, 60).Draw(t, "upto"),
		}}
	case kind == 1 || len(doubted) > 0 && kind < 4:
		calls := append(doubted, &conversationpb.OpenCall{Id: "c1", Need: conversationpb.Need_OUTCOME})
		progress.Body = &conversationpb.Progress_Doubt{Doubt: &conversationpb.Doubt{Calls: calls}}
	case len(open) > 0:
		progress.Body = &conversationpb.Progress_Results{Results: &conversationpb.ToolResults{Results: w.results(open)}}
	default:
		progress.Body = &conversationpb.Progress_Use{Use: w.use(turn.GetSteps())}
	}
	return progress
}

func (w *walk) results(open []*conversationpb.OpenCall) (results []*conversationpb.ToolCall) {
	for _, call := range open {
		if rapid.Bool().Draw(w.t, "has result") {
			results = append(results, &conversationpb.ToolCall{Id: call.GetId(), Name: call.GetName(), Result: "r\xff"})
		}
	}
	return results
}

func (w *walk) use(step uint32) *conversationpb.ToolUse {
	t := w.t
	use := &conversationpb.ToolUse{Text: "hm \xff", Usage: w.usage()}
	for i := range rapid.SampledFrom([]int{2, 1, 3, 4, 5, 0}).Draw(t, "calls") {
		id := fmt.Sprintf("c%d_%d", step, i)
		use.Calls = append(use.Calls, &conversationpb.ToolCall{
			Id: id, Name: w.tool(), Arguments: rapid.SampledFrom([]string{`{"n":1}`, "{}", "", "[", "{\"a\xff\":1}"}).Draw(t, "arguments"),
		})
		use.Open = append(use.Open, &conversationpb.OpenCall{
			Id: id, Need: conversationpb.Need(rapid.SampledFrom([]int{2, 1, 3, 4, 2, 1, 2, 1, 2, 1, 3, 4, 1, 1, 2, 2, 1, 1, 5}).Draw(t, "need")),
			Idempotent:      rapid.Bool().Draw(t, "idempotent"),
			OfCaller:        rapid.Bool().Draw(t, "of caller"),
			Schema:          rapid.SampledFrom([][]byte{nil, []byte(`{"required":["n"]}`), []byte(`{`)}).Draw(t, "schema"),
			Details:         rapid.SampledFrom([][]byte{nil, []byte(`{"prompt":"?"}`), []byte(`{`)}).Draw(t, "details"),
			ActionTimeoutMs: rapid.SampledFrom([]int64{60_000, 10_000, 0, 1, 1 << 62}).Draw(t, "patience"),
		})
	}
	return use
}

func (w *walk) resolve() *conversationpb.Resolve {
	t, pending := w.t, w.state().GetPending()
	resolve := &conversationpb.Resolve{
		ActionId: rapid.SampledFrom([]string{"act_1", "act_2", "act_x"}).Draw(t, "action"),
		Agent:    w.agent(),
		Wait:     rapid.Bool().Draw(t, "wait"),
	}
	kind := rapid.SampledFrom([]string{"tool_approval", "user_question", "client_tool"}).Draw(t, "resolution")
	if len(pending) > 0 && rapid.IntRange(0, 9).Draw(t, "any action") != 7 {
		action := rapid.SampledFrom(pending).Draw(t, "pending")
		resolve.ActionId, kind = action.GetId(), action.GetKind()
	}
	switch kind {
	case "tool_approval":
		resolve.Resolution = &conversationpb.Resolve_Approval{Approval: &conversationpb.ToolApproval{
			Allow:        !rapid.Bool().Draw(t, "allow"),
			Remember:     !rapid.Bool().Draw(t, "remember"),
			ApprovedArgs: rapid.SampledFrom([][]byte{nil, nil, []byte(`{"n":2}`), []byte(`{`)}).Draw(t, "approved"),
			Comment:      rapid.SampledFrom([]string{"", "no", "\xff"}).Draw(t, "comment"),
		}}
	case "user_question":
		resolve.Resolution = &conversationpb.Resolve_Answers{Answers: &conversationpb.UserAnswers{
			Answers:   rapid.SampledFrom([][]byte{[]byte(`{"a":1}`), nil, []byte("{\"\xff\":1}")}).Draw(t, "answers"),
			Cancelled: rapid.Bool().Draw(t, "unanswered"),
		}}
	default:
		resolve.Resolution = &conversationpb.Resolve_Client{Client: &conversationpb.ClientResult{
			Output: rapid.SampledFrom([][]byte{[]byte(`"ok"`), []byte(`[1]`), nil, []byte("\"\xff\"")}).Draw(t, "output"),
			Error:  rapid.SampledFrom([]string{"", "broken", "\xff"}).Draw(t, "error"),
		}}
	}
	return resolve
}
