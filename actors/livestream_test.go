package actors

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"parley/actors/core/expected"
	"parley/actors/core/follow"
	"parley/actors/turn"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// scene drives LiveStreams directly.
type scene struct {
	*LiveStreams
	t *testing.T
}

func newScene(t *testing.T) *scene {
	t.Helper()
	return &scene{NewLiveStreams(LiveStreamsConfig{MaxFollowers: 3}), t}
}

func (s *scene) register(sink follow.Sink) *follower {
	fl, err := s.LiveStreams.register(1, testID, sink)
	require.NoError(s.t, err)
	return fl
}

func (s *scene) open(fl *follower, seq uint64, run string) *conversationpb.Snapshot {
	head := &conversationpb.State{LastSeq: seq}
	if run != "" {
		head.Lease = &conversationpb.Lease{RunId: run}
	}
	snapshot, err := fl.open(1, head)
	require.NoError(s.t, err)
	return snapshot
}

func (s *scene) begin(run string) turn.Output {
	return s.Begin(turn.Place{Shard: 1, Epoch: 1, ConversationID: testID}, run, &conversationpb.Message{Id: "msg_" + run})
}

func (s *scene) publish(events ...*conversationpb.Event) {
	s.LiveStreams.publish(Commit{Ref: Entity{Shard: 1, Epoch: 1, ID: testID}, After: &conversationpb.State{}}, events)
}

func event(seq uint64) *conversationpb.Event { return &conversationpb.Event{Seq: seq} }

func ended(seq uint64, run string) *conversationpb.Event {
	return &conversationpb.Event{Seq: seq, RunId: run, Body: &conversationpb.Event_TurnEnded{TurnEnded: &conversationpb.TurnEnded{}}}
}

// heard is what a recorder was told, in short.
func (r *recorder) heard() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var parts []string
	for _, c := range r.changes {
		switch {
		case c.GetRunStarted() != nil:
			parts = append(parts, "start "+c.GetRunStarted().GetRunId())
		case c.GetDelta() != nil:
			parts = append(parts, fmt.Sprintf("%d:%s", c.GetDelta().GetOffset(), c.GetDelta().GetText()))
		default:
			for _, e := range c.GetEvents() {
				parts = append(parts, fmt.Sprint(e.GetSeq()))
			}
		}
	}
	return strings.Join(parts, " ")
}

func TestSnapshotAgreesWithWhatFollows(t *testing.T) {
	for _, test := range []struct {
		name     string
		before   func(s *scene, out turn.Output) // after registering, before the snapshot
		seq      uint64                          // of the head that was read
		run      string                          // of the head that was read
		after    func(s *scene, out turn.Output)
		snapshot string
		heard    string
	}{
		{
			name: "in_mid_turn", before: func(_ *scene, out turn.Output) { out.Write("ab") }, seq: 5, run: "r",
			after:    func(s *scene, out turn.Output) { out.Write("cd"); s.publish(event(6), ended(7, "r")) },
			snapshot: "5 r ab", heard: "2:cd 6 7",
		},
		{
			name: "head_saw_the_end_before_the_stream", before: func(_ *scene, out turn.Output) { out.Write("ab") }, seq: 7,
			after:    func(s *scene, _ turn.Output) { s.publish(event(6), ended(7, "r")); s.publish(event(8)) },
			snapshot: "7  ", heard: "8",
		},
		{
			name: "stream_saw_the_end_after_the_head", seq: 5, run: "r",
			before:   func(s *scene, out turn.Output) { out.Write("ab"); s.publish(event(6), ended(7, "r")) },
			after:    func(s *scene, _ turn.Output) { s.publish(event(8)) },
			snapshot: "7  ", heard: "8",
		},
		{
			name: "head_saw_half_of_a_batch", seq: 6, run: "r",
			after:    func(s *scene, _ turn.Output) { s.publish(event(6), ended(7, "r")) },
			snapshot: "6 r ", heard: "7",
		},
		{
			name: "next_run_began_after_the_head", seq: 5, run: "r",
			before: func(s *scene, _ turn.Output) {
				s.publish(event(6), ended(7, "r"))
				s.publish(event(8), event(9))
				s.begin("r2").Write("new")
			},
			snapshot: "9 r2 new",
		},
		{
			name: "next_run_is_in_the_head_but_has_not_begun", seq: 9, run: "r2",
			before:   func(_ *scene, out turn.Output) { out.Write("old") },
			after:    func(s *scene, _ turn.Output) { s.begin("r2").Write("new") },
			snapshot: "9  ", heard: "start r2 0:new",
		},
		{
			name: "recovered_run_begins_again", seq: 5, run: "r",
			before: func(_ *scene, out turn.Output) { out.Write("first try") },
			after: func(s *scene, out turn.Output) {
				again := s.begin("r")
				out.Write("too late")
				again.Write("second")
			},
			snapshot: "5 r first try", heard: "start r 0:second",
		},
		{
			name: "sealed_run_is_silent", seq: 5, run: "r",
			before: func(_ *scene, out turn.Output) { out.Write("ab") },
			after: func(_ *scene, out turn.Output) {
				require.Equal(t, "ab", out.Seal())
				out.Write("too late")
				require.Equal(t, "ab", out.Seal())
			},
			snapshot: "5 r ab",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newScene(t)
			early := &recorder{}
			s.open(s.register(early), 5, "")
			out := s.begin("r")
			sink := &recorder{}
			fl := s.register(sink)
			if test.before != nil {
				test.before(s, out)
			}
			snapshot := s.open(fl, test.seq, test.run)
			require.Equal(t, test.snapshot, fmt.Sprintf("%d %s %s", snapshot.GetLastSeq(), snapshot.GetRunId(), snapshot.GetText()))
			require.Empty(t, sink.heard(), "nothing before the snapshot")
			if test.after != nil {
				test.after(s, out)
			}
			require.Equal(t, test.heard, sink.heard())
			require.True(t, strings.HasPrefix(early.heard(), "start r"), early.heard())
		})
	}
}

func TestGapClosesTheFollow(t *testing.T) {
	s := newScene(t)
	sink := &recorder{}
	s.open(s.register(sink), 5, "")
	s.publish(event(7))
	require.Empty(t, sink.heard())
	require.Equal(t, failurepb.Code_UNAVAILABLE, codeOf(sink.reason()))
	require.Zero(t, s.size())
}

func TestReloadThatIsAheadClosesTheFollow(t *testing.T) {
	s := newScene(t)
	behind := &recorder{}
	s.open(s.register(behind), 5, "")
	s.begin("r")
	opening := s.register(&recorder{})
	current := &recorder{}
	s.open(s.register(current), 7, "")
	s.reload(testID, &conversationpb.State{LastSeq: 7})
	require.Equal(t, failurepb.Code_UNAVAILABLE, codeOf(behind.reason()))
	require.NoError(t, current.reason())
	snapshot := s.open(opening, 5, "r")
	require.EqualValues(t, 7, snapshot.GetLastSeq())
	require.Empty(t, snapshot.GetRunId())
}

func TestFollowerOfAnAppendWithLostAcknowledgementComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		s := newShell(t, j, 1)
		s.must("add:a")
		sink := &recorder{}
		_, cancel, err := s.Follow(t.Context(), testShard, testID, sink)
		require.NoError(t, err)
		defer cancel()
		j.fail(lostAck)
		_, err = s.tell("add:b")
		require.Error(t, err)
		require.NoError(t, sink.reason())
		time.Sleep(2 * time.Second) // nobody sends anything
		synctest.Wait()
		require.Equal(t, failurepb.Code_UNAVAILABLE, codeOf(sink.reason()))
	})
}

func TestQueuedCommandOfAFormerEpochIsNotDecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		s := newShell(t, j, 1)
		s.must("add:a")
		j.slow(time.Second)
		slow := s.later("add:b")
		queued := s.later("add:c")
		s.Own(testShard, 2)
		waiting := s.later("add:d")
		requireLost(t, (<-slow).err)
		requireNotOwner(t, (<-queued).err, 2)
		require.NoError(t, (<-waiting).err, "this one waited for the new activation")
		require.Equal(t, "ad", s.must("title"))
	})
}

func TestFollowEnds(t *testing.T) {
	s := newScene(t)
	var followers []*follower
	for range 3 {
		fl := s.register(&recorder{})
		s.open(fl, 1, "")
		followers = append(followers, fl)
	}
	_, err := s.LiveStreams.register(1, testID, &recorder{})
	require.Equal(t, failurepb.Code_UNAVAILABLE, codeOf(err), "bounded")
	followers[0].cancel()
	followers[0].cancel()
	itself := &selfCancelling{}
	fl := s.register(itself)
	itself.cancel = fl.cancel
	s.open(fl, 1, "")
	out := s.begin("r")
	out.Write("x")
	require.Equal(t, 1, itself.heard, "a sink may cancel itself, and hears no more")
	out.Release()
	out.Write("y")
	s.LiveStreams.publish(Commit{Ref: Entity{Shard: 1, Epoch: 1, ID: testID}}, nil)
	for _, fl := range followers[1:] {
		require.Equal(t, failurepb.Code_NOT_FOUND, codeOf(fl.reason), "deleted")
	}
	require.Zero(t, s.size())

	kept, moved := &recorder{}, &recorder{}
	a, err := s.LiveStreams.register(1, "conv_a", kept)
	require.NoError(t, err)
	s.open(a, 1, "")
	b, err := s.LiveStreams.register(2, "conv_b", moved)
	require.NoError(t, err)
	opening, err := s.LiveStreams.register(2, "conv_b", &recorder{})
	require.NoError(t, err)
	s.open(b, 1, "")
	s.closeShard(2, 1, &NotOwnerError{Shard: 2})
	require.NoError(t, kept.reason())
	requireNotOwner(t, moved.reason(), 0)
	_, err = opening.open(1, &conversationpb.State{})
	requireNotOwner(t, err, 0)
	a.cancel()
	require.Zero(t, s.size())
}

// A node that owns a shard again may have recovered a turn before it has closed the streams of the epoch before.
func TestStreamsOfALaterEpochStay(t *testing.T) {
	s := newScene(t)
	former := &recorder{}
	s.open(s.register(former), 1, "")
	out := s.Begin(turn.Place{Shard: 1, Epoch: 2, ConversationID: testID}, "r", nil)
	out.Write("ab")
	s.closeShard(1, 1, &NotOwnerError{Shard: 1, Epoch: 1})
	requireNotOwner(t, former.reason(), 1)
	follower := &recorder{}
	require.Equal(t, "ab", s.open(s.register(follower), 1, "r").GetText())
	out.Write("cd")
	require.Equal(t, "2:cd", follower.heard())
	s.closeShard(1, 2, &NotOwnerError{Shard: 1, Epoch: 2})
	requireNotOwner(t, follower.reason(), 2)
	out.Write("ef")
	require.Equal(t, "2:cd", follower.heard())
	require.Zero(t, s.size())
}

type selfCancelling struct {
	heard  int
	cancel func()
}

func (c *selfCancelling) Change(*conversationpb.Change) { c.heard++; c.cancel() }
func (c *selfCancelling) Closed(error)                  {}

// TestFollowOfWhatIsExpected: who follows a conversation before the command that makes it is given hears all of it.
func TestFollowOfWhatIsExpected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShell(t, newJournal(), 1)
		sink := &recorder{}
		snapshot, cancel, err := s.Follow(expected.Context(t.Context()), testShard, testID, sink)
		require.NoError(t, err)
		defer cancel()
		require.Zero(t, snapshot.GetLastSeq())
		s.must("add:made add:a")
		s.must("add:b")
		synctest.Wait()
		require.NoError(t, sink.reason())
		var heard []uint64
		for _, change := range sink.changes {
			for _, event := range change.GetEvents() {
				heard = append(heard, event.GetSeq())
			}
		}
		require.Equal(t, []uint64{1, 2}, heard)
	})
}

func TestFollowOfWhatIsNotThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		s := newShell(t, j, 1)
		_, _, err := s.Follow(t.Context(), testShard, "conv_none", &recorder{})
		require.Equal(t, failurepb.Code_NOT_FOUND, codeOf(err))
		_, _, err = s.Follow(t.Context(), 44, "conv_none", &recorder{})
		requireNotOwner(t, err, 0)
		j.loadErrs = []error{errors.New("disk")}
		_, _, err = s.Follow(context.Background(), testShard, "conv_none", &recorder{})
		require.ErrorContains(t, err, "disk")
		s.Disown(testShard)
		_, _, err = s.Follow(t.Context(), testShard, "conv_none", &recorder{})
		requireNotOwner(t, err, 1)
		require.Zero(t, s.streams.size())
	})
}
