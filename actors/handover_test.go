package actors

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/proto/agentpb"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// TestHandOvers has two nodes own a shard in turn, planned and not, while people send, wait, cancel, rename and follow
// through whichever node they believe to be the owner, and storage loses an answer now and then. It holds what was
// promised to them against the log. PARLEY_HANDOVER_SEED repeats a run, PARLEY_HANDOVER_RUNS makes more of them.
func TestHandOvers(t *testing.T) {
	runs := 4
	if n, err := strconv.Atoi(os.Getenv("PARLEY_HANDOVER_RUNS")); err == nil {
		runs = n
	}
	first := uint64(time.Now().UnixNano())
	if n, err := strconv.ParseUint(os.Getenv("PARLEY_HANDOVER_SEED"), 10, 64); err == nil {
		first, runs = n, 1
	}
	for i := range runs {
		seed := first + uint64(i)
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newPlay(t, seed).run() })
		})
	}
}

// play is one run: two nodes, a few conversations, and people.
type play struct {
	t       *testing.T
	seed    uint64
	cluster *simCluster
	nodes   [2]*simNode
	ids     []string
	end     context.Context //nolint:containedctx // the end of the play
	done    context.CancelFunc

	mu       sync.Mutex
	faults   []string
	accepted map[string]string // content -> run
	answers  map[string]string // run -> text, as a waiting sender was told
	renamed  map[string]bool   // titles that were acknowledged
	settled  map[string]time.Time
	last     map[string]time.Time // run -> newest text that anybody heard of it
	count    map[string]int
	seen     []sight
}

// sight is what somebody was told of a conversation: whether a turn was active at some moment of the asking.
type sight struct {
	id       string
	from, to time.Time
	active   bool
}

const (
	playTime = 40 * time.Second
	talks    = 4
)

func newPlay(t *testing.T, seed uint64) *play {
	t.Helper()
	p := &play{
		t: t, seed: seed, cluster: newSimCluster(seed),
		accepted: map[string]string{}, answers: map[string]string{}, renamed: map[string]bool{},
		settled: map[string]time.Time{}, last: map[string]time.Time{}, count: map[string]int{},
	}
	ids := &testIDs{}
	for i, name := range []string{"n1", "n2"} {
		p.nodes[i] = p.cluster.join(t, name, p.speak, ids)
	}
	for i := range talks {
		p.ids = append(p.ids, fmt.Sprint("conv_", i))
	}
	p.end, p.done = context.WithTimeout(t.Context(), playTime)
	return p
}

// speak is a model that says up to thirty words, and sometimes takes its time.
func (p *play) speak(ctx context.Context, say func(string)) error {
	words, pace := p.cluster.draw(30), 1+p.cluster.draw(60)
	if p.cluster.draw(4) == 0 {
		words *= 3
	}
	for i := range words {
		say(fmt.Sprint("w", i, " "))
		if !sleep(ctx, ctx, time.Duration(pace)*time.Millisecond) {
			return context.Cause(ctx)
		}
	}
	return nil
}

func (p *play) fault(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, fmt.Sprintf(format, args...))
}

func (p *play) met(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count[what]++
}

func (p *play) run() {
	p.cluster.elect(p.nodes[0], 0)
	for _, id := range p.ids {
		_, err := p.ask(p.t.Context(), id, "create_"+id, &conversationpb.Command{Body: &conversationpb.Command_Create{
			Create: &conversationpb.Create{Agent: &agentpb.Agent{Id: "a"}},
		}})
		require.NoError(p.t, err)
	}
	var people sync.WaitGroup
	for i, id := range p.ids {
		for role, act := range []func(*rand.Rand, string, string){p.sender, p.sender, p.canceller, p.renamer, p.follower, p.follower} {
			random := rand.New(rand.NewPCG(p.seed, uint64(10*i+role)))
			people.Go(func() { act(random, id, fmt.Sprint(id, "/", role)) })
		}
	}
	p.govern()
	p.done()
	people.Wait()
	p.settle()
	p.check()
	p.t.Logf("met: %v", p.count)
}

// govern hands the shard over, one way or another.
func (p *play) govern() {
	random := rand.New(rand.NewPCG(p.seed, 999))
	for p.end.Err() == nil {
		if !sleep(p.end, p.end, time.Duration(random.IntN(2500))*time.Millisecond) {
			return
		}
		p.cluster.mu.Lock()
		former := p.cluster.leader
		p.cluster.mu.Unlock()
		next := p.nodes[random.IntN(2)]
		if former == next && random.IntN(3) > 0 {
			continue
		}
		if random.IntN(2) == 0 {
			p.cluster.elect(next, time.Duration(random.IntN(3000))*time.Millisecond) // it dies, or is cut off
			p.met("taken over")
			continue
		}
		ctx, cancel := context.WithTimeout(p.t.Context(), time.Duration(random.IntN(800))*time.Millisecond)
		err := former.system.Drain(ctx, testShard)
		cancel()
		switch {
		case err != nil:
			p.met("drain failed")
			former.system.Undrain(testShard)
		case random.IntN(4) == 0:
			p.met("undrained")
			sleep(p.t.Context(), p.t.Context(), time.Duration(random.IntN(300))*time.Millisecond)
			former.system.Undrain(testShard)
		default:
			p.met("handed over")
			p.cluster.elect(next, 0)
		}
	}
}

// settle lets what is under way end, on a shard that stays where it is.
func (p *play) settle() {
	time.Sleep(5 * time.Second)
	p.cluster.mu.Lock()
	leader := p.cluster.leader
	p.cluster.mu.Unlock()
	leader.system.Undrain(testShard)
	time.Sleep(40 * time.Second)
}

// ask sends a command like the router does: to whom it believes to be the owner, and again under the same id where it
// was told that it belongs elsewhere, or that nobody knows.
func (p *play) ask(ctx context.Context, id, commandID string, command *conversationpb.Command) (*conversationpb.Reply, error) {
	command.ConversationId, command.CommandId = id, commandID
	command.Caller = &conversationpb.Caller{TenantId: "t", ProjectId: "p", UserId: "u", Trusted: true}
	for try := 0; ; try++ {
		reply, err := p.nodes[try%2].system.Ask(ctx, testShard, id, command)
		if err == nil {
			answer, _ := reply.(*conversationpb.Reply)
			return answer, nil
		}
		var notOwner *NotOwnerError
		var unknown *UnknownOutcomeError
		switch {
		case errors.As(err, &notOwner):
			p.met("not owner")
		case errors.As(err, &unknown):
			p.met("unknown")
		default:
			return nil, err
		}
		if !sleep(ctx, ctx, 5*time.Millisecond) {
			return nil, ctx.Err()
		}
	}
}

// patience is how long somebody waits for an answer.
func (p *play) patience(random *rand.Rand) (context.Context, context.CancelFunc) {
	return context.WithTimeout(p.t.Context(), time.Duration(100+random.IntN(8000))*time.Millisecond)
}

func (p *play) pause(random *rand.Rand, most int) bool {
	return sleep(p.end, p.end, time.Duration(random.IntN(most))*time.Millisecond)
}

func (p *play) sender(random *rand.Rand, id, name string) {
	for i := 0; p.pause(random, 300); i++ {
		content := fmt.Sprint(name, "#", i)
		wait := random.IntN(2) == 0
		ctx, cancel := p.patience(random)
		began := time.Now()
		reply, err := p.ask(ctx, id, "send_"+content, &conversationpb.Command{Body: &conversationpb.Command_Send{
			Send: &conversationpb.Send{Agent: &agentpb.Agent{Id: "a"}, Content: content, Wait: wait},
		}})
		cancel()
		if codeOf(err) == failurepb.Code_CONVERSATION_BUSY {
			p.see(id, began, true)
		}
		if err != nil {
			continue
		}
		p.mu.Lock()
		if run := reply.GetAccepted().GetRunId(); run != "" {
			p.accepted[content] = run
		}
		if result := reply.GetTurn(); result != nil {
			p.accepted[content] = result.GetRunId()
			if !result.GetPartial() {
				p.answers[result.GetRunId()] = result.GetResponse().GetContent()
			}
		}
		p.mu.Unlock()
	}
}

func (p *play) canceller(random *rand.Rand, id, name string) {
	for i := 0; p.pause(random, 900); i++ {
		ctx, cancel := p.patience(random)
		began := time.Now()
		reply, err := p.ask(ctx, id, fmt.Sprint("cancel_", name, "#", i), &conversationpb.Command{
			Body: &conversationpb.Command_Cancel{Cancel: &conversationpb.Cancel{SettleWaitMs: int64(random.IntN(3000))}},
		})
		cancel()
		if err != nil {
			continue
		}
		told := reply.GetCancelled()
		switch {
		case told.GetCancelled() && told.GetSettled():
			p.met("settled")
			p.mu.Lock()
			if _, known := p.settled[told.GetRunId()]; !known {
				p.settled[told.GetRunId()] = time.Now()
			}
			p.mu.Unlock()
		case told.GetCancelled():
			p.met("not settled")
		case told.GetSettled():
			p.see(id, began, false)
		}
	}
}

// see notes what an answer said.
func (p *play) see(id string, from time.Time, active bool) {
	p.met(fmt.Sprint("seen active ", active))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = append(p.seen, sight{id, from, time.Now(), active})
}

func (p *play) renamer(random *rand.Rand, id, name string) {
	for i := 0; p.pause(random, 700); i++ {
		title := fmt.Sprint(name, "#", i)
		ctx, cancel := p.patience(random)
		_, err := p.ask(ctx, id, "rename_"+title, &conversationpb.Command{Body: &conversationpb.Command_Update{
			Update: &conversationpb.Update{Patch: &conversationpb.Patch{Title: proto.String(title)}},
		}})
		cancel()
		if err == nil {
			p.mu.Lock()
			p.renamed[title] = true
			p.mu.Unlock()
		}
	}
}

// listener is a reader that also tells when it heard text of a run.
type listener struct {
	*reader
	play *play
}

func (l *listener) Change(change *conversationpb.Change) {
	if delta := change.GetDelta(); delta != nil {
		l.play.mu.Lock()
		l.play.last[delta.GetRunId()] = time.Now()
		l.play.mu.Unlock()
	}
	l.reader.Change(change)
}

// follower follows a conversation from node to node, and never misses, repeats or reorders an event: each follow begins
// where the log is, and what is between is in the log.
func (p *play) follower(random *rand.Rand, id, name string) {
	for try := random.IntN(2); p.end.Err() == nil; try++ {
		r := &reader{}
		ctx, cancel := context.WithTimeout(p.t.Context(), time.Second)
		snapshot, stop, err := p.nodes[try%2].system.Follow(ctx, testShard, id, &listener{r, p})
		cancel()
		if err != nil {
			p.met("follow refused")
			if !p.pause(random, 20) {
				return
			}
			continue
		}
		p.met("follow")
		r.begin(snapshot)
		for i := 0; i < 2+random.IntN(200) && p.end.Err() == nil && !r.isClosed(); i++ {
			p.pause(random, 100)
		}
		stop()
		r.mu.Lock()
		for _, fault := range r.faults {
			p.fault("%s: %s", name, fault)
		}
		r.mu.Unlock()
	}
}

// check holds what everybody was told against the log.
func (p *play) check() {
	t := p.t
	p.mu.Lock()
	defer p.mu.Unlock()
	require.Empty(t, p.faults, "seed %d", p.seed)
	sent, renamed := map[string]string{}, map[string]bool{}
	ended := map[string]conversationpb.StopReason{}
	texts := map[string]string{}
	for _, id := range p.ids {
		p.checkLog(id, sent, renamed, ended, texts)
	}
	for content, run := range p.accepted {
		require.Equal(t, run, sent[content], "seed %d: %s was acknowledged", p.seed, content)
	}
	for title := range p.renamed {
		require.True(t, renamed[title], "seed %d: %s was acknowledged", p.seed, title)
	}
	for run, text := range p.answers {
		require.Equal(t, texts[run], text, "seed %d: %s", p.seed, run)
	}
	for run, at := range p.settled {
		require.Equal(t, conversationpb.StopReason_CANCELLED, ended[run], "seed %d: %s was said to be cancelled", p.seed, run)
		require.False(t, p.last[run].After(at), "seed %d: text of %s came %s after its cancel was settled", p.seed, run,
			p.last[run].Sub(at))
	}
	spells := map[string][]spell{}
	for _, id := range p.ids {
		spells[id] = p.spells(id)
	}
	for _, told := range p.seen {
		require.True(t, told.truly(spells[told.id]), "seed %d: %s was said to have an active turn: %t, between %s and %s", p.seed, told.id,
			told.active, told.from, told.to)
	}
	require.NotEmpty(t, p.accepted)
	require.NotEmpty(t, p.settled)
	require.NotEmpty(t, p.renamed)
}

// spell is a time in which a conversation had an active turn.
type spell struct{ from, to time.Time }

// spells lists when a conversation had an active turn.
func (p *play) spells(id string) []spell {
	var spells []spell
	times := p.cluster.journal.entities[id].at
	for i, event := range p.cluster.journal.log(p.t, id) {
		switch {
		case event.GetTurnStarted() != nil:
			spells = append(spells, spell{from: times[i]})
		case event.GetTurnEnded() != nil:
			spells[len(spells)-1].to = times[i]
		}
	}
	return spells
}

// truly says whether there was a moment at which what was seen was so.
func (s sight) truly(spells []spell) bool {
	for _, turn := range spells {
		if s.active && !turn.from.After(s.to) && !turn.to.Before(s.from) {
			return true
		}
		if !s.active && turn.from.Before(s.from) && turn.to.After(s.to) {
			return false
		}
	}
	return !s.active
}

// checkLog walks the events of a conversation: one turn at a time, each command once, nothing left open.
func (p *play) checkLog(
	id string, sent map[string]string, renamed map[string]bool, ended map[string]conversationpb.StopReason, texts map[string]string,
) {
	t, run := p.t, ""
	for _, event := range p.cluster.journal.log(t, id) {
		if m := event.GetUserMessage().GetMessage(); m != nil {
			require.Empty(t, sent[m.GetContent()], "seed %d: %s was applied twice", p.seed, m.GetContent())
			sent[m.GetContent()] = event.GetRunId()
		}
		if updated := event.GetUpdated(); updated != nil {
			title := updated.GetPatch().GetTitle()
			require.False(t, renamed[title], "seed %d: %s was applied twice", p.seed, title)
			renamed[title] = true
		}
		if event.GetTurnStarted() != nil {
			require.Empty(t, run, "seed %d: two turns at once", p.seed)
			run = event.GetRunId()
		}
		if m := event.GetAgentMessage().GetMessage(); m != nil {
			texts[event.GetRunId()] = m.GetContent()
		}
		if event.GetTurnRecovered() != nil {
			p.count["recovered"]++
			require.Equal(t, run, event.GetRunId())
		}
		if turnEnded := event.GetTurnEnded(); turnEnded != nil {
			require.Equal(t, run, event.GetRunId(), "seed %d", p.seed)
			ended[run], run = turnEnded.GetStopReason(), ""
			p.count["turn "+turnEnded.GetStopReason().String()]++
		}
	}
	require.Empty(t, run, "seed %d: %s is stuck", p.seed, id)
	require.Nil(t, p.cluster.journal.state(id).GetLease(), "seed %d: %s is stuck", p.seed, id)
}

// TestSettledMeansSilent: the former owner is cut off, hears of nothing for long, and has a follower. Once the cancel is
// settled at the next owner, that follower hears no more of the run.
func TestSettledMeansSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlay(t, 1)
		defer p.done()
		p.cluster = newSimCluster(1)
		talk := func(ctx context.Context, say func(string)) error {
			for sleep(ctx, ctx, 10*time.Millisecond) {
				say(".")
			}
			return context.Cause(ctx)
		}
		ids := &testIDs{}
		p.nodes = [2]*simNode{p.cluster.join(t, "n1", talk, ids), p.cluster.join(t, "n2", talk, ids)}
		p.cluster.elect(p.nodes[0], 0)
		ask := func(commandID string, command *conversationpb.Command) *conversationpb.Reply {
			reply, err := p.ask(t.Context(), testID, commandID, command)
			require.NoError(t, err)
			return reply
		}
		ask("c", &conversationpb.Command{Body: &conversationpb.Command_Create{Create: &conversationpb.Create{Agent: &agentpb.Agent{Id: "a"}}}})
		run := ask("s", &conversationpb.Command{Body: &conversationpb.Command_Send{Send: &conversationpb.Send{Content: "go on"}}}).GetAccepted().GetRunId()
		sink := &listener{&reader{}, p}
		snapshot, stop, err := p.nodes[0].system.Follow(t.Context(), testShard, testID, sink)
		require.NoError(t, err)
		defer stop()
		sink.begin(snapshot)
		time.Sleep(2 * time.Second)
		p.cluster.elect(p.nodes[1], time.Minute)
		time.Sleep(100 * time.Millisecond)
		began := time.Now()
		reply, err := p.nodes[1].system.Ask(t.Context(), testShard, testID, &conversationpb.Command{
			ConversationId: testID, Caller: &conversationpb.Caller{TenantId: "t", ProjectId: "p", UserId: "u", Trusted: true},
			Body: &conversationpb.Command_Cancel{Cancel: &conversationpb.Cancel{SettleWaitMs: 5000}},
		})
		require.NoError(t, err)
		answer, _ := reply.(*conversationpb.Reply)
		told := answer.GetCancelled()
		require.True(t, told.GetSettled())
		require.Equal(t, run, told.GetRunId())
		settled := time.Now()
		require.Less(t, settled.Sub(began), 1500*time.Millisecond)
		time.Sleep(10 * time.Second)
		require.False(t, sink.isClosed(), "it has not heard of it yet")
		heard := p.last[run]
		require.True(t, heard.After(began), "it spoke on for a while: %s", heard.Sub(began))
		require.True(t, heard.Before(settled), "it was heard %s after the cancel was settled", heard.Sub(settled))
	})
}
