package machinetest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"parley/actors/machine"
)

// Suite says how to test one machine.
type Suite struct {
	Machine machine.Machine
	// Command and Event return empty messages of the machine's kinds.
	Command, Event func() proto.Message
	// Prepare completes a command of a script with what every command has; nil = nothing.
	Prepare func(command proto.Message)
}

// Script runs one script.
func (s Suite) Script(t *testing.T, path string) {
	t.Helper()
	run := &script{suite: s, entity: NewEntity(s.Machine), env: machine.Env{Node: "n1", Epoch: 1}}
	datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
		t.Helper()
		return run.step(t, d)
	})
}

// Scripts runs every script of a directory, each as a subtest.
func (s Suite) Scripts(t *testing.T, dir string) {
	t.Helper()
	datadriven.Walk(t, dir, func(t *testing.T, path string) {
		t.Helper()
		if strings.HasSuffix(path, ".txt") {
			s.Script(t, path)
		}
	})
}

type script struct {
	suite  Suite
	entity *Entity
	env    machine.Env
}

func (s *script) step(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	s.scanEnv(t, d)
	switch d.Cmd {
	case "reset":
		s.entity = NewEntity(s.suite.Machine)
		return ""
	case "given":
		state := s.suite.Machine.NewState()
		s.parse(t, d, state)
		if err := s.entity.Give(state); err != nil {
			d.Fatalf(t, "give: %v", err)
		}
		return ""
	case "do":
		command := s.suite.Command()
		s.parse(t, d, command)
		if s.suite.Prepare != nil {
			s.suite.Prepare(command)
		}
		return s.do(t, d, command)
	case "activate":
		command := s.suite.Machine.OnActivate(s.entity.State, s.env)
		if command == nil {
			return "nothing\n"
		}
		return "command " + Text(command) + "\n" + s.do(t, d, command)
	case "state":
		return Text(s.entity.State) + "\n"
	case "rows":
		return s.entity.Rows.String()
	case "record":
		var file string
		d.ScanArgs(t, "file", &file)
		s.suite.record(t, file, s.entity)
		return ""
	}
	d.Fatalf(t, "unknown script command %q", d.Cmd)
	return ""
}

func (s *script) scanEnv(t *testing.T, d *datadriven.TestData) {
	t.Helper()
	s.env.NewID = s.entity.NewID
	if d.HasArg("now") {
		var now int64
		d.ScanArgs(t, "now", &now)
		s.env.Now = time.UnixMilli(now)
	}
	if d.HasArg("node") {
		d.ScanArgs(t, "node", &s.env.Node)
	}
	if d.HasArg("epoch") {
		d.ScanArgs(t, "epoch", &s.env.Epoch)
	}
	if d.HasArg("since") {
		var since int64
		d.ScanArgs(t, "since", &since)
		s.env.EpochSince = time.UnixMilli(since)
	}
	s.env.Survived = nil
	if d.HasArg("survived") {
		var survived uint64
		d.ScanArgs(t, "survived", &survived)
		s.env.Survived = func(epoch uint64) bool { return epoch == survived }
	}
}

func (*script) parse(t *testing.T, d *datadriven.TestData, into proto.Message) {
	t.Helper()
	if err := prototext.Unmarshal([]byte(d.Input), into); err != nil {
		d.Fatalf(t, "parse: %v", err)
	}
}

func (s *script) do(t *testing.T, d *datadriven.TestData, command proto.Message) string {
	t.Helper()
	s.env.NewID = s.entity.NewID
	decision, failure, err := s.entity.Do(command, s.env)
	if err != nil {
		d.Fatalf(t, "the contract is broken: %v", err)
	}
	return Outcome(decision, failure)
}

// Outcome prints what was decided, or why it was refused, one line for each thing.
func Outcome(decision machine.Decision, failure *machine.Failure) string {
	if failure != nil {
		return "refused " + failureText(failure) + "\n"
	}
	var b strings.Builder
	for _, effect := range decision.Urgent {
		fmt.Fprintf(&b, "urgent %s\n", EffectText(effect))
	}
	if decision.Create {
		b.WriteString("create\n")
	}
	for _, event := range decision.Events {
		fmt.Fprintf(&b, "event %s\n", Text(event))
	}
	if decision.Delete {
		b.WriteString("delete\n")
	}
	for _, effect := range decision.Effects {
		fmt.Fprintf(&b, "effect %s\n", EffectText(effect))
	}
	if decision.Reply != nil {
		fmt.Fprintf(&b, "reply %s\n", Text(decision.Reply))
	}
	if decision.Wait != "" {
		fmt.Fprintf(&b, "wait %s\n", decision.Wait)
	}
	if decision.IfUnwritten != nil {
		fmt.Fprintf(&b, "unwritten %s\n", Text(decision.IfUnwritten))
	}
	for _, settled := range decision.Settle {
		if settled.Failure != nil {
			fmt.Fprintf(&b, "settle %s refused %s\n", settled.Key, failureText(settled.Failure))
			continue
		}
		fmt.Fprintf(&b, "settle %s %s\n", settled.Key, Text(settled.Reply))
	}
	if b.Len() == 0 {
		return "nothing\n"
	}
	return b.String()
}

func failureText(failure *machine.Failure) string {
	text := fmt.Sprintf("%s %q", failure.Code, failure.DefaultText())
	if len(failure.Details) == 0 {
		return text
	}
	details, err := json.Marshal(failure.Details)
	if err != nil {
		return fmt.Sprintf("%s details do not marshal: %v", text, err)
	}
	return text + " " + string(details)
}
