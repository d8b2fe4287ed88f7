package audit_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"parley/actors/audit"
	chain "parley/actors/core/audit"
	"parley/actors/machine"
	"parley/actors/machine/machinetest"
	"parley/proto/auditpb"
)

const trail = "audit_AAAAAAAAAAAAAAAAAAAAA"

func suite() machinetest.Suite {
	return machinetest.Suite{
		Machine: audit.New().Machine,
		Command: func() proto.Message { return new(auditpb.Command) },
		Event:   func() proto.Message { return new(auditpb.Event) },
		Prepare: func(message proto.Message) {
			if command, ok := message.(*auditpb.Command); ok && command.Id == "" {
				command.Id = trail
			}
		},
	}
}

func TestScripts(t *testing.T) { suite().Scripts(t, "testdata") }

func TestTable(t *testing.T) { suite().Table(t, "states.md") }

// world is a chain, what its writers have sent, and what they were told.
type world struct {
	entity  *machinetest.Entity
	now     int64
	batches map[string]uint64
	open    []*auditpb.Row // that began and were not ended
	begun   map[string]bool
	last    *auditpb.Command
	rows    map[uint64]*auditpb.Row
	made    int
}

func newWorld() *world {
	return &world{
		entity: machinetest.NewEntity(audit.New().Machine), now: 1_000_000, batches: map[string]uint64{}, begun: map[string]bool{},
		rows: map[uint64]*auditpb.Row{},
	}
}

func (w *world) state() *auditpb.State {
	s, _ := w.entity.State.(*auditpb.State)
	return s
}

func (w *world) do(t require.TestingT, command *auditpb.Command) *auditpb.Reply {
	decision, refused, err := w.entity.Do(command, machine.Env{Now: time.UnixMilli(w.now), Epoch: 1, NewID: w.entity.NewID})
	require.NoError(t, err)
	require.Nil(t, refused)
	for _, message := range decision.Events {
		event, _ := message.(*auditpb.Event)
		for _, row := range event.GetWritten().GetRows() {
			require.NotContains(t, w.rows, row.GetNumber())
			w.rows[row.GetNumber()] = row
		}
		for number := range w.rows {
			if number <= event.GetTrimmed().GetThrough().GetNumber() {
				delete(w.rows, number)
			}
		}
	}
	reply, _ := decision.Reply.(*auditpb.Reply)
	return reply
}

func (w *world) write(writer string, begun []*auditpb.Pending, rows []*auditpb.Row) *auditpb.Command {
	w.batches[writer]++
	w.last = &auditpb.Command{Id: trail, Body: &auditpb.Command_Write{Write: &auditpb.Write{
		TenantId: "t1", Writer: writer, Batch: w.batches[writer], KeepMs: 100_000, KeepRows: 64, Begun: begun, Rows: rows,
	}}}
	return w.last
}

func (w *world) export() string {
	out := chain.AppendBegin(nil, "t1", w.state().GetCheckpoint(), false)
	for number := w.state().GetCheckpoint().GetNumber() + 1; number <= w.state().GetLast().GetNumber(); number++ {
		out = append(chain.AppendJSON(out, w.rows[number]), '\n')
	}
	return string(chain.AppendEnd(out, "t1", w.state().GetLast(), false))
}

func (w *world) walk(t *rapid.T, steps int) {
	for range rapid.IntRange(1, steps).Draw(t, "steps") {
		writer := rapid.SampledFrom([]string{"w1", "w2", "w3"}).Draw(t, "writer")
		switch rapid.IntRange(0, 5).Draw(t, "step") {
		case 0: // some begin
			var begun []*auditpb.Pending
			for range rapid.IntRange(1, 3).Draw(t, "begun") {
				w.made++
				row := &auditpb.Row{Id: fmt.Sprint("aud_", w.made), Path: rapid.String().Draw(t, "path"), Outcome: chain.Unknown}
				begun = append(begun, &auditpb.Pending{Row: row, Until: w.now + 5000})
			}
			refused := w.do(t, w.write(writer, begun, nil)).GetRefused()
			for _, b := range begun {
				if !slices.Contains(refused, b.GetRow().GetId()) {
					w.begun[b.GetRow().GetId()] = true
					w.open = append(w.open, b.GetRow())
				}
			}
		case 1, 2: // one ends, beside others that never began
			rows := []*auditpb.Row{{Id: fmt.Sprint("aud_x", w.made), Outcome: chain.Denied, Count: 2, Changes: []*auditpb.Change{{Record: "users", After: `{"a":1}`}}}}
			if len(w.open) > 0 {
				i := rapid.IntRange(0, len(w.open)-1).Draw(t, "ended")
				ended := proto.CloneOf(w.open[i])
				ended.Outcome, ended.StatusCode = chain.Success, 200
				rows = append(rows, ended)
				w.open = slices.Delete(w.open, i, i+1)
			}
			w.do(t, w.write(writer, nil, rows))
		case 3: // the newest batch once more
			if w.last != nil {
				before := proto.CloneOf(w.state())
				w.do(t, w.last)
				require.True(t, proto.Equal(before, w.state()), "a batch that is repeated changes nothing")
			}
		case 4:
			w.now += rapid.Int64Range(-500, 20_000).Draw(t, "time")
			w.do(t, &auditpb.Command{Id: trail, Body: &auditpb.Command_Due{Due: &auditpb.Due{}}})
		case 5:
			w.now += rapid.Int64Range(0, 100).Draw(t, "time")
		}
	}
}

// TestTheChainIsWhole: whatever writers do, in any order and again, the chain is whole, no request that began is without a row or
// pending, and what is stored are its rows.
func TestTheChainIsWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		w.walk(t, 60)
		if w.state() == nil {
			return
		}
		found, err := chain.Verify(strings.NewReader(w.export()), nil)
		require.NoError(t, err)
		require.Equal(t, w.state().GetLast().GetNumber(), found.Number)
		require.LessOrEqual(t, len(w.state().GetMarks()), 64+2)
		for _, row := range w.rows {
			delete(w.begun, row.GetId())
		}
		for _, pending := range w.state().GetPending() {
			delete(w.begun, pending.GetRow().GetId())
		}
		if w.state().GetCheckpoint() == nil {
			require.Empty(t, w.begun, "began and has no row")
		}
	})
}

// TestWhatIsTamperedWithIsFound: a row that is altered, removed, moved or inserted, and an end that is cut off.
func TestWhatIsTamperedWithIsFound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		w.do(t, w.write("w1", nil, []*auditpb.Row{{Id: "aud_a", Path: "/<a>&\u2028"}, {Id: "aud_b"}, {Id: "aud_c"}}))
		w.walk(t, 20)
		whole := w.export()
		lines := strings.SplitAfter(strings.TrimSuffix(whole, "\n"), "\n")
		rows := len(lines) - 2
		if rows < 2 {
			return
		}
		one := 1 + rapid.IntRange(0, rows-1).Draw(t, "row")
		other := 1 + rapid.IntRange(0, rows-1).Draw(t, "other")
		forged := slices.Clone(lines)
		switch rapid.IntRange(0, 6).Draw(t, "forgery") {
		case 0:
			at := rapid.IntRange(0, len(lines[one])-2).Draw(t, "byte")
			altered := []byte(lines[one])
			altered[at] = rapid.SampledFrom([]byte(`a0"Z,}`)).Draw(t, "value")
			forged[one] = string(altered)
		case 1:
			forged = slices.Delete(forged, one, one+1)
		case 2:
			forged[one], forged[other] = forged[other], forged[one]
		case 3:
			forged = slices.Insert(forged, one, lines[other])
		case 4: // a row with a hash of its own
			fresh := &auditpb.Row{Id: "aud_new", TenantId: "t1"}
			chain.Seal(fresh, &auditpb.Mark{Number: uint64(one)})
			forged = slices.Insert(forged, one, string(append(chain.AppendJSON(nil, fresh), '\n')))
		case 5:
			forged = forged[:len(forged)-1]
		case 6: // the newest rows, with the end made to fit
			kept := w.rows[w.state().GetLast().GetNumber()-1]
			forged = append(forged[:len(forged)-2], string(chain.AppendEnd(nil, "t1", &auditpb.Mark{Number: kept.GetNumber(), Hash: kept.GetHash()}, false)))
			seen := map[uint64]string{w.state().GetLast().GetNumber(): fmt.Sprintf("%x", w.state().GetLast().GetHash())}
			_, err := chain.Verify(strings.NewReader(strings.Join(forged, "")), seen)
			require.Error(t, err, "who has seen the newest row misses it")
			return
		}
		if strings.Join(forged, "") == strings.TrimSuffix(whole, "\n") {
			return
		}
		_, err := chain.Verify(bytes.NewReader([]byte(strings.Join(forged, ""))), nil)
		require.Error(t, err, "%s", strings.Join(forged, ""))
	})
}

// TestManyAtOnceAreRefused: what is pending is bounded, and ends make room.
func TestManyAtOnceAreRefused(t *testing.T) {
	w := newWorld()
	var refused []string
	for i := range 3 {
		var begun []*auditpb.Pending
		for k := range chain.MaxBatch {
			begun = append(begun, &auditpb.Pending{Row: &auditpb.Row{Id: fmt.Sprintf("aud_%d_%d", i, k)}, Until: w.now + 1000})
		}
		refused = w.do(t, w.write("w1", begun, nil)).GetRefused()
	}
	require.Len(t, refused, chain.MaxBatch)
	require.Equal(t, refused, w.do(t, w.last).GetRefused(), "a repetition is told the same")
	w.do(t, w.write("w1", nil, []*auditpb.Row{{Id: "aud_0_0"}}))
	require.Empty(t, w.do(t, w.write("w1", []*auditpb.Pending{{Row: &auditpb.Row{Id: "aud_late"}, Until: w.now + 1}}, nil)).GetRefused())
}
