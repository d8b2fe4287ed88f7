package actors

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/actors/conversation"
	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/logpb"
)

// fault is what happens to one append.
type fault int

const (
	none     fault = iota
	full           // refused
	broken         // refused, for good
	busy           // refused
	large          // refused
	notOwner       // refused
	lostAck        // applied, but the shell does not hear it
	lost           // not applied, and the shell does not hear that either
	late           // applied after the shell has given up
	fenced         // a newer owner has written
)

// journal is a Journal in memory that compares and fences like the real one.
type journal struct {
	mu       sync.Mutex
	entities map[string]*entity
	faults   []fault // of the next appends
	loadErrs []error // of the next loads
	scanErrs []error // of the next Running
	dueErrs  []error // of the next Due
	looks    int     // calls of Due
	rows     map[row][]byte
	confErrs []error // of the next Confirm
	delay    time.Duration
	confirms atomic.Int64
	appends  atomic.Int64
	loads    atomic.Int64
	watch    func(what string)
	judge    func(*logpb.Append) fault // of an append that nothing else happens to
}

type entity struct {
	head   Head
	shard  uint32
	events [][]byte
	at     []time.Time       // when each event was applied
	items  map[string][]byte // by table and key
}

// row is a row of a list.
type row struct {
	list   string
	shard  uint32
	score  int64
	member string
}

func newJournal() *journal {
	return &journal{entities: map[string]*entity{}, rows: map[row][]byte{}}
}

func (j *journal) fail(faults ...fault) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.faults = append(j.faults, faults...)
}

func (j *journal) slow(delay time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.delay = delay
}

func take[T any](queue *[]T) (value T) {
	if len(*queue) > 0 {
		value, *queue = (*queue)[0], (*queue)[1:]
	}
	return value
}

func (j *journal) Load(_ context.Context, _ uint32, id string) (Head, bool, error) {
	j.loads.Add(1)
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := take(&j.loadErrs); err != nil {
		return Head{}, false, err
	}
	e := j.entities[id]
	if e == nil {
		return Head{}, false, nil
	}
	return e.head, true, nil
}

func (j *journal) Running(_ context.Context, in uint32, list string, visit func(string)) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := take(&j.scanErrs); err != nil {
		return err
	}
	if list != conversation.ListRunning {
		for at := range j.rows {
			if at.list == list && at.shard == in {
				visit(at.member)
			}
		}
		return nil
	}
	for id, e := range j.entities {
		if e.shard == in && strings.HasPrefix(id, "conv_") && stateOf(e.head.State).GetLease() != nil {
			visit(id)
		}
	}
	return nil
}

// Due keeps the rows of lists as the entries say.
func (j *journal) Due(_ context.Context, in uint32, query DueQuery, visit func(string)) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.looks++
	if err := take(&j.dueErrs); err != nil {
		return err
	}
	var due []row
	for at := range j.rows {
		if at.list == query.List && at.shard == in && at.score <= query.Until.UnixMilli() {
			due = append(due, at)
		}
	}
	slices.SortFunc(due, func(x, y row) int { return cmp.Or(cmp.Compare(x.score, y.score), cmp.Compare(x.member, y.member)) })
	for _, at := range due[:min(query.Limit, len(due))] {
		visit(at.member)
	}
	return nil
}

// Listed reads rows with their values.
func (j *journal) Listed(_ context.Context, in uint32, query ListedQuery, visit func(ListedRow)) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	var found []row
	for at := range j.rows {
		if at.list == query.List && at.shard == in {
			found = append(found, at)
		}
	}
	slices.SortFunc(found, func(x, y row) int { return cmp.Or(cmp.Compare(x.score, y.score), cmp.Compare(x.member, y.member)) })
	if query.Last {
		slices.Reverse(found)
	}
	for _, at := range found[:min(query.Limit, len(found))] {
		visit(ListedRow{Score: at.score, Member: at.member, Value: j.rows[at]})
	}
	return nil
}

func (j *journal) Confirm(context.Context, uint32) error {
	j.confirms.Add(1)
	j.mu.Lock()
	defer j.mu.Unlock()
	return take(&j.confErrs)
}

func (*journal) Owns(uint32, uint64) bool { return true }

func (j *journal) Append(ctx context.Context, in uint32, entry *logpb.Append) (*logpb.Result, error) {
	j.appends.Add(1)
	j.mu.Lock()
	what, delay := take(&j.faults), j.delay
	if what == none && j.judge != nil {
		what = j.judge(entry)
	}
	j.mu.Unlock()
	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	switch what {
	case full:
		return nil, fmt.Errorf("append: %w", ErrFull)
	case broken:
		return nil, fmt.Errorf("append: %w", ErrFailed)
	case busy:
		return nil, fmt.Errorf("append: %w", ErrBusy)
	case large:
		return nil, fmt.Errorf("append: %w", ErrTooLarge)
	case notOwner:
		return nil, fmt.Errorf("append: %w", ErrNotOwner)
	case lost:
		return nil, fmt.Errorf("append: %w", ErrOutcomeUnknown)
	case lostAck:
		j.apply(in, entry)
		return nil, errors.New("connection reset")
	case late:
		time.AfterFunc(time.Millisecond, func() { j.apply(in, entry) })
		<-ctx.Done()
		return nil, ctx.Err()
	case fenced:
		return &logpb.Result{Outcome: logpb.Outcome_FENCED, Epoch: entry.GetEpoch() + 1}, nil
	case none:
	}
	return j.apply(in, entry), nil
}

func (j *journal) apply(in uint32, entry *logpb.Append) *logpb.Result {
	j.mu.Lock()
	defer j.mu.Unlock()
	e := j.entities[entry.GetId()]
	result := &logpb.Result{Outcome: logpb.Outcome_APPLIED}
	switch {
	case e == nil && !entry.GetCreate():
		result.Outcome = logpb.Outcome_SEQ_MISMATCH
		return result
	case e != nil && entry.GetCreate():
		result.Outcome = logpb.Outcome_EXISTS
		return result
	case e != nil && e.head.Epoch > entry.GetEpoch():
		result.Outcome = logpb.Outcome_FENCED
		return result
	case e != nil && e.head.Seq != entry.GetExpectedSeq():
		result.Outcome = logpb.Outcome_SEQ_MISMATCH
		return result
	}
	for _, listing := range entry.GetListings() {
		at := row{listing.GetList(), in, listing.GetScore(), listing.GetMember()}
		if j.rows[at] = listing.GetValue(); listing.GetDelete() {
			delete(j.rows, at)
		}
	}
	if entry.GetDeleteEntity() {
		delete(j.entities, entry.GetId())
		return result
	}
	if e == nil {
		e = &entity{shard: in, items: map[string][]byte{}}
		j.entities[entry.GetId()] = e
		if len(entry.GetEvents())+int(entry.GetUnkept()) > 0 {
			e.head.Seq = ^uint64(0)
		}
	}
	e.head = Head{Seq: e.head.Seq + uint64(len(entry.GetEvents())) + uint64(entry.GetUnkept()), Epoch: entry.GetEpoch(), State: entry.GetHead()}
	e.events = append(e.events, entry.GetEvents()...)
	for _, item := range entry.GetItems() {
		key := string(append([]byte{byte(item.GetTable())}, item.GetKey()...))
		if e.items[key] = item.GetValue(); item.GetDelete() {
			delete(e.items, key)
		}
	}
	for range entry.GetEvents() {
		e.at = append(e.at, time.Now())
	}
	result.Seq, result.Epoch = e.head.Seq, e.head.Epoch
	if j.watch != nil {
		j.watch("durable")
	}
	return result
}

func (j *journal) state(id string) *conversationpb.State {
	j.mu.Lock()
	defer j.mu.Unlock()
	if e := j.entities[id]; e != nil {
		return stateOf(e.head.State)
	}
	return nil
}

// log returns the stored events, and checks that their seqs are dense.
func (j *journal) log(t *testing.T, id string) []*conversationpb.Event {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	var events []*conversationpb.Event
	for i, raw := range j.entities[id].events {
		event := &conversationpb.Event{}
		require.NoError(t, proto.Unmarshal(raw, event))
		require.EqualValues(t, i, event.GetSeq())
		events = append(events, event)
	}
	return events
}

func stateOf(raw []byte) *conversationpb.State {
	state := &conversationpb.State{}
	if err := proto.Unmarshal(raw, state); err != nil {
		panic(err)
	}
	return state
}

// probe is a machine for testing the shell: the content of a Send says what its decision does, word by word.
type probe struct{}

func (probe) Kind() string            { return "conv" }
func (probe) NewState() proto.Message { return &conversationpb.State{} }
func (probe) Seq(s proto.Message) uint64 {
	return cast(s).GetLastSeq()
}

func cast(m proto.Message) *conversationpb.State {
	state, ok := m.(*conversationpb.State)
	if !ok {
		panic("not a state")
	}
	return state
}

// Project keeps the due row: CreatedAt of the state is when.
func (probe) Project(before, after proto.Message, _ []proto.Message, into *logpb.Append) {
	into.Counts = append(into.Counts, &logpb.Count{Name: "projected", Delta: 1})
	was, _ := before.(*conversationpb.State)
	is, _ := after.(*conversationpb.State)
	if was.GetCreatedAt() != 0 {
		into.Listings = append(into.Listings, &logpb.Listing{List: probeDue, Score: was.GetCreatedAt(), Member: into.GetId(), Delete: true})
	}
	if is.GetCreatedAt() != 0 {
		into.Listings = append(into.Listings, &logpb.Listing{List: probeDue, Score: is.GetCreatedAt(), Member: into.GetId()})
	}
}

const probeDue = "probe/due"

func (probe) OnActivate(s proto.Message, env machine.Env) proto.Message {
	state := cast(s)
	if state.GetLease() == nil || state.GetLease().GetEpoch() == env.Epoch {
		return nil
	}
	return say("run effect:recovered")
}

func (probe) Evolve(before proto.Message, events []proto.Message) proto.Message {
	after := &conversationpb.State{}
	if before != nil {
		after = cast(proto.Clone(before))
	}
	for _, m := range events {
		event := eventsOf([]proto.Message{m})[0]
		after.LastSeq = event.GetSeq()
		after.UpdatedAt = event.GetCreatedAt()
		switch {
		case event.GetTurnStarted() != nil:
			after.Lease = event.GetTurnStarted().GetLease()
		case event.GetTurnEnded() != nil:
			after.Lease = nil
		case event.GetCancelRequested() != nil:
			after.CreatedAt = event.GetCancelRequested().GetIssuedAt()
		case event.GetUserMessage() != nil:
			after.Title += event.GetUserMessage().GetMessage().GetContent()
		}
	}
	return after
}

func (probe) Decide(s, c proto.Message, env machine.Env) (machine.Decision, *machine.Failure) {
	state, _ := s.(*conversationpb.State)
	var d machine.Decision
	seq := state.GetLastSeq()
	if state == nil {
		d.Create = true
		seq = ^uint64(0)
	}
	emit := func(e *conversationpb.Event) {
		seq++
		e.Seq, e.CreatedAt = seq, env.Now.UnixMilli()
		d.Events = append(d.Events, e)
	}
	d.Reply = &conversationpb.Reply{}
	command, ok := c.(*conversationpb.Command)
	if !ok {
		panic("not a command")
	}
	for _, word := range strings.Fields(command.GetSend().GetContent()) {
		verb, arg, _ := strings.Cut(word, ":")
		switch verb {
		case "add":
			emit(&conversationpb.Event{Body: &conversationpb.Event_UserMessage{UserMessage: &conversationpb.UserMessage{
				Message: &conversationpb.Message{Content: arg},
			}}})
		case "run":
			lease := &conversationpb.Lease{RunId: "run_1", Node: env.Node, Epoch: env.Epoch}
			emit(&conversationpb.Event{Body: &conversationpb.Event_TurnStarted{TurnStarted: &conversationpb.TurnStarted{Lease: lease}}})
		case "due": // in so long, or not any more
			var at int64
			if pause, err := time.ParseDuration(arg); err == nil {
				at = env.Now.Add(pause).UnixMilli()
			}
			emit(&conversationpb.Event{Body: &conversationpb.Event_CancelRequested{
				CancelRequested: &conversationpb.CancelRequested{IssuedAt: at},
			}})
		case "end":
			emit(&conversationpb.Event{RunId: "run_1", Body: &conversationpb.Event_TurnEnded{TurnEnded: &conversationpb.TurnEnded{}}})
		case "urgent":
			d.Urgent = append(d.Urgent, arg)
		case "effect":
			d.Effects = append(d.Effects, arg)
		case "wait":
			d.Reply, d.Wait = nil, arg
		case "settle":
			d.Settle = append(d.Settle, machine.Settlement{Key: arg, Reply: titled("settled")})
		case "timer":
			after, command, _ := strings.Cut(arg, "=")
			pause, err := time.ParseDuration(after)
			if err != nil {
				return d, failure.Verbatim(failurepb.Code_VALIDATION, err.Error())
			}
			d.Effects = append(d.Effects, machine.Timer{After: pause, Command: say(strings.ReplaceAll(command, "+", " "))})
		case "unwritten":
			d.IfUnwritten = titled("unwritten")
		case "title":
			d.Create = false
			d.Reply = titled(state.GetTitle())
		case "now":
			d.Reply = titled(env.Now.Format(time.RFC3339))
		case "id":
			d.Reply = titled(env.NewID("msg"))
		case "delete":
			d.Delete = true
		case "panic":
			panic("as asked")
		case "refuse":
			return d, failure.Verbatim(failurepb.Code_CONVERSATION_BUSY, "as asked")
		}
	}
	if len(d.Events) == 0 {
		d.Create = false
	}
	return d, nil
}

func say(words string) *conversationpb.Command {
	return &conversationpb.Command{Body: &conversationpb.Command_Send{Send: &conversationpb.Send{Content: words}}}
}

func titled(title string) *conversationpb.Reply {
	return &conversationpb.Reply{Body: &conversationpb.Reply_State{State: &conversationpb.State{Title: title}}}
}

// shell is a System over a probe with all that happens in one list.
type shell struct {
	*System
	tb      testing.TB
	journal *journal
	metrics *prometheus.Registry

	mu     sync.Mutex
	seen   []string
	fellow func(at Entity, effect machine.Effect) proto.Message
}

type testIDs struct{ n atomic.Uint64 }

func (i *testIDs) NewID(kind string, shard uint32) string {
	return fmt.Sprintf("%s_%d_%d", kind, shard, i.n.Add(1))
}

const testShard = 3

// newShell starts a system that owns testShard under the epoch, and stops it when the test ends.
func newShell(tb testing.TB, j *journal, epoch uint64, change ...func(*Config)) *shell {
	tb.Helper()
	s := &shell{tb: tb, journal: j, metrics: prometheus.NewRegistry()}
	config := Config{
		Node: "n1", Journal: j, IDs: &testIDs{},
		Kinds: []Kind{{
			Machine: probe{},
			Perform: func(at Entity, effect machine.Effect) proto.Message {
				s.note(fmt.Sprint("effect ", effect))
				if s.fellow != nil {
					return s.fellow(at, effect)
				}
				return nil
			},
			OnCommit: func(c Commit) {
				s.note(fmt.Sprint("commit ", len(c.Events)))
				s.streams.publish(c, eventsOf(c.Events))
			},
			OnLoad:    func(at Entity, state proto.Message) { s.streams.reload(at.ID, cast(state)) },
			OnRelease: func(shard uint32, epoch uint64) { s.note(fmt.Sprint("release ", shard, " ", epoch)) },
			Busy:      func(state proto.Message) bool { return cast(state).GetLease() != nil },
			Drain:     func(context.Context) { s.note("drain") },
			Running:   conversation.ListRunning,
		}},
		Registerer: s.metrics,
		Logger:     slog.New(slog.NewTextHandler(testWriter{tb}, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	for _, c := range change {
		c(&config)
	}
	system, err := New(config)
	require.NoError(tb, err)
	s.System = system
	tb.Cleanup(func() { system.Stop(context.Background()) })
	system.Own(testShard, epoch)
	return s
}

type testWriter struct{ tb testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	if os.Getenv("SHELL_LOG") != "" {
		w.tb.Log(strings.TrimSpace(string(p)))
	}
	return len(p), nil
}

func (s *shell) note(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, what)
}

// happened returns what was noted so far and forgets it.
func (s *shell) happened() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.seen
	s.seen = nil
	return seen
}

const testID = "conv_abc"

func (s *shell) tell(words string) (string, error) {
	return s.tellTo(s.tb.Context(), testID, words)
}

func (s *shell) tellTo(ctx context.Context, id, words string) (string, error) {
	reply, err := s.Ask(ctx, testShard, id, say(words))
	if err != nil {
		return "", err
	}
	answer, ok := reply.(*conversationpb.Reply)
	require.True(s.tb, ok)
	return answer.GetState().GetTitle(), nil
}

func (s *shell) must(words string) string {
	s.tb.Helper()
	title, err := s.tell(words)
	require.NoError(s.tb, err)
	return title
}

func codeOf(err error) failurepb.Code {
	var failure *machine.Failure
	if errors.As(err, &failure) {
		return failure.Code
	}
	return failurepb.Code_CODE_UNSPECIFIED
}

// entryOf builds the entry that another owner of the same state would append for a command.
func (s *shell) entryOf(t *testing.T, words string) *logpb.Append {
	t.Helper()
	before := s.journal.state(testID)
	g := &activation{host: s.hostIf(testShard), kind: &s.config.Kinds[0], id: testID, term: newTerm(t.Context(), 1, nil), state: before}
	decision, failure := probe{}.Decide(before, say(words), g.env())
	require.Nil(t, failure)
	entry, err := g.entry(&decision, probe{}.Evolve(before, decision.Events))
	require.NoError(t, err)
	return entry
}

// metric returns the value of a gauge or counter without labels.
func (s *shell) metric(name string) float64 {
	s.tb.Helper()
	families, err := s.metrics.Gather()
	require.NoError(s.tb, err)
	for _, family := range families {
		if family.GetName() == name {
			m := family.GetMetric()[0]
			return m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	require.Fail(s.tb, "no such metric", name)
	return 0
}
