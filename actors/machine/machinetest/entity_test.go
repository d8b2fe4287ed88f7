package machinetest_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/actors/machine/machinetest"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/logpb"
)

// counter is a machine that counts commands in last_seq. The title of the command says what it does wrong.
type counter struct{ fault string }

func (counter) Kind() string               { return "count" }
func (counter) NewState() proto.Message    { return new(conversationpb.State) }
func (counter) Seq(s proto.Message) uint64 { return stateOf(s).GetLastSeq() }

func stateOf(message proto.Message) *conversationpb.State {
	s, _ := message.(*conversationpb.State)
	return s
}

func (c counter) Decide(state, command proto.Message, _ machine.Env) (machine.Decision, *machine.Failure) {
	s := stateOf(state)
	event := &conversationpb.Event{Seq: s.GetLastSeq() + 1, Body: &conversationpb.Event_Updated{}}
	decision := machine.Decision{Events: []proto.Message{event}, Reply: command}
	if s == nil {
		event.Seq, decision.Create = 0, true
	}
	switch c.fault {
	case "gap":
		event.Seq++
	case "create":
		decision.Create = !decision.Create
	case "decide changes state":
		if s != nil {
			s.Title = "changed"
		}
	case "reply and wait":
		decision.Wait = "key"
	case "refuse and decide":
		return decision, failure.Verbatim(failurepb.Code_FORBIDDEN, "no")
	case "nothing urgent":
		decision.IfUnwritten = command
	case "fold":
		decision.Events = append(decision.Events, &conversationpb.Event{Seq: event.GetSeq() + 1})
	case "not UTF-8":
		event.RunId = "\xff"
	}
	return decision, nil
}

func (c counter) Evolve(state proto.Message, events []proto.Message) proto.Message {
	next := new(conversationpb.State)
	if s := stateOf(state); s != nil {
		next.LastSeq, next.MessageCount = s.GetLastSeq(), s.GetMessageCount()
		if c.fault != "newer fields dropped" {
			next.ProtoReflect().SetUnknown(s.ProtoReflect().GetUnknown())
		}
		if c.fault == "evolve changes state" {
			s.Title = "changed"
		}
	}
	for _, message := range events {
		event, _ := message.(*conversationpb.Event)
		next.LastSeq = event.GetSeq()
		if c.fault == "seq lost" {
			next.LastSeq = 77
		}
	}
	if c.fault == "fold" && len(events) > 0 {
		next.MessageCount = uint64(len(events))
	}
	return next
}

func (c counter) Project(before, _ proto.Message, _ []proto.Message, into *logpb.Append) {
	into.Listings = append(into.Listings, &logpb.Listing{List: "all", Score: 1, Member: "x", Delete: before != nil})
	if before != nil {
		into.Listings = append(into.Listings, &logpb.Listing{List: "all", Score: 1, Member: "x"})
	}
	switch c.fault {
	case "place twice":
		into.Listings = append(into.Listings, &logpb.Listing{List: "all", Score: 1, Member: "x"})
	case "blob twice", "blob in pieces":
		change := &logpb.BlobChange{Id: "file_1", Size: 1, Chunks: 1}
		if c.fault == "blob in pieces" {
			change.Chunks = 2
		}
		into.Blobs = append(into.Blobs, change)
		if before != nil && c.fault == "blob twice" {
			into.Blobs = append(into.Blobs, change)
		}
	case "blob not there":
		into.Blobs = append(into.Blobs, &logpb.BlobChange{Id: "file_1", Delete: true})
	case "count below zero":
		into.Counts = append(into.Counts, &logpb.Count{Name: "n", Delta: -1})
	case "project changes state":
		if s := stateOf(before); s != nil {
			s.Title = "changed"
		}
	}
}

func (counter) OnActivate(proto.Message, machine.Env) proto.Message { return nil }

// TestEntityComplains: the harness must see each way to break the contract.
func TestEntityComplains(t *testing.T) {
	command := new(conversationpb.Command)
	for fault, says := range map[string]string{
		"":                      "",
		"gap":                   "is next",
		"create":                "create is",
		"decide changes state":  "decide changed the state",
		"evolve changes state":  "evolve changed the state",
		"project changes state": "project changed the state",
		"reply and wait":        "both replies and waits",
		"refuse and decide":     "a refusal came with a decision",
		"nothing urgent":        "for the unwritten",
		"not UTF-8":             "marshal event",
		"seq lost":              "state has seq 77",
		"newer fields dropped":  "evolve drops the fields of a newer release",
		"fold":                  "fold",
		"place twice":           "place",
		"count below zero":      "count n fell",
		"blob twice":            "blob file_1",
		"blob in pieces":        "1 bytes in 2 pieces",
		"blob not there":        "blob file_1",
	} {
		entity := machinetest.NewEntity(counter{})
		_, _, err := entity.Do(command, machine.Env{})
		require.NoError(t, err)
		entity.Machine = counter{fault: fault}
		_, _, err = entity.Do(command, machine.Env{})
		if says == "" {
			require.NoError(t, err)
			require.Len(t, entity.Journal, 2)
			continue
		}
		require.ErrorContains(t, err, says, fault)
	}
}

func TestText(t *testing.T) {
	message := &conversationpb.Event{Seq: 3, Body: &conversationpb.Event_TurnEnded{TurnEnded: &conversationpb.TurnEnded{
		StopReason: conversationpb.StopReason(99), Usage: &conversationpb.Usage{Priced: true},
		Error: &conversationpb.TurnError{Message: "a \"quote\"\n"},
	}}}
	require.Equal(t, `{seq: 3 turn_ended: {stop_reason: 99 usage: {priced: true} error: {message: "a \"quote\"\n"}}}`,
		machinetest.Text(message))
	require.Equal(t, `{remembered_tools: "a" remembered_tools: "b"}`,
		machinetest.Text(&conversationpb.State{RememberedTools: []string{"a", "b"}}))
	require.Equal(t, "none", machinetest.Text(nil))

	type inner struct{ Run string }
	type effect struct {
		inner
		Inner   struct{ Run string }
		Message proto.Message
		Raw     []byte
		hidden  string
		N       int
	}
	require.Equal(t, `effect{Message: {seq: 1} Raw: "\x00" N: 7}`, machinetest.EffectText(effect{
		Message: &conversationpb.Event{Seq: 1}, Raw: []byte{0}, hidden: "x", N: 7, inner: inner{Run: "unexported"},
	}))
	type exported struct{ conversationpb.StopReason }
	require.Equal(t, "exported{StopReason: END_TURN}", machinetest.EffectText(exported{conversationpb.StopReason_END_TURN}))
	require.Equal(t, "int{3}", machinetest.EffectText(3))
}
