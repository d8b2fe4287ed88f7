package delivery_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"parley/actors/delivery"
	"parley/proto/deliverypb"
)

const now = 1000

func policy() delivery.Policy { return delivery.Policy{Attempts: 3, Timeout: time.Minute} }

func TestBackoff(t *testing.T) {
	t.Parallel()
	var waits []time.Duration
	for attempt := uint32(1); ; attempt++ {
		wait, more := delivery.Backoff(attempt, 6)
		if !more {
			break
		}
		waits = append(waits, wait/time.Second)
	}
	require.Equal(t, []time.Duration{2, 4, 8, 16, 32}, waits)
	_, more := delivery.Backoff(0, 6)
	require.False(t, more)
}

// underWay is a delivery whose first attempt has begun.
func underWay(t *testing.T) *deliverypb.Delivery {
	t.Helper()
	step := policy().Begin(delivery.New("evt_1", "done", now), now)
	require.Equal(t, uint32(1), step.Attempt.GetAttempt())
	return step.Next
}

func TestReports(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		report *deliverypb.Report
		want   string // the delivery's next attempt and when it is due; "" = over
		over   delivery.Step
	}{
		{name: "taken", report: &deliverypb.Report{Ok: true}, over: delivery.Step{Delivered: true}},
		{name: "failed", report: &deliverypb.Report{Error: "no"}, want: `2 in 2s: no`},
		{name: "hopeless", report: &deliverypb.Report{Hopeless: true, Error: "gone"}, over: delivery.Step{Error: "gone"}},
		{name: "asked_for_more_time", report: &deliverypb.Report{RetryAfter: 30_000}, want: `2 in 30s: `},
		{name: "asked_for_less_time", report: &deliverypb.Report{RetryAfter: 30}, want: `2 in 2s: `},
		{name: "asked_for_ever", report: &deliverypb.Report{RetryAfter: 1 << 40}, want: `2 in 1h0m0s: `},
		{name: "not_made", report: &deliverypb.Report{Unsent: true}, want: `1 in 10s: `},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.report.Id, c.report.Attempt = "evt_1", 1
			step, known := policy().Report(underWay(t), c.report, now)
			require.True(t, known)
			if c.want == "" {
				require.Equal(t, c.over, step)
				return
			}
			due := time.Duration(step.Next.GetNextAt()-now) * time.Millisecond
			require.Equal(t, c.want, string('0'+rune(step.Next.GetAttempt()))+" in "+due.String()+": "+step.Error)
			require.Equal(t, []any{"evt_1", "done", int64(now)}, []any{step.Next.GetId(), step.Next.GetEvent(), step.Next.GetAt()})
		})
	}
}

func TestReportsOfOthersAreIgnored(t *testing.T) {
	t.Parallel()
	for _, report := range []*deliverypb.Report{
		{Id: "evt_1", Attempt: 2, Ok: true}, {Id: "evt_1", Ok: true}, {Id: "evt_2", Attempt: 1, Ok: true}, {Attempt: 1, Ok: true},
	} {
		_, known := policy().Report(underWay(t), report, now)
		require.False(t, known, report)
	}
	_, known := policy().Report(nil, &deliverypb.Report{}, now)
	require.False(t, known)
}

// TestEnds: whatever comes of the attempts, no more than the policy has are made, each once, and the delivery ends.
func TestEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, at := policy(), int64(now)
		stored := delivery.New("evt_1", "done", at)
		made := map[uint32]bool{}
		for range 100 {
			step := p.Begin(stored, at)
			if step.Next == nil {
				require.False(t, step.Delivered)
				return
			}
			stored = step.Next
			attempt := proto.CloneOf(step.Attempt)
			report := &deliverypb.Report{Id: "evt_1", Attempt: attempt.GetAttempt()}
			lost := false
			switch rapid.IntRange(0, 5).Draw(t, "came") {
			case 0:
				report.Ok = true
			case 1:
				lost = true
			case 2:
				report.Unsent = true
			}
			if !report.GetUnsent() {
				require.False(t, made[attempt.GetAttempt()], "made once")
				made[attempt.GetAttempt()] = true
				require.LessOrEqual(t, len(made), 3)
			}
			if !lost {
				step, known := p.Report(stored, report, at)
				require.True(t, known)
				if step.Next == nil {
					require.Equal(t, report.GetOk(), step.Delivered)
					return
				}
				stored = step.Next
			}
			require.Greater(t, stored.GetNextAt(), at)
			at = stored.GetNextAt()
		}
		require.LessOrEqual(t, len(made), 3)
	})
}

// TestLost: an attempt of an owner that is gone is put off, not made at once; a report of it that comes after all counts, and what is not
// under way stays as it is.
func TestLost(t *testing.T) {
	t.Parallel()
	begun := underWay(t)
	require.True(t, begun.GetTrying())
	lost, is := policy().Lost(begun, now+10)
	require.True(t, is)
	require.Equal(t, []any{uint32(2), int64(now + 2010), false}, []any{lost.Next.GetAttempt(), lost.Next.GetNextAt(), lost.Next.GetTrying()})
	require.Nil(t, lost.Attempt)
	require.NotEmpty(t, lost.Error)
	_, is = policy().Lost(lost.Next, now+20)
	require.False(t, is)
	step, known := policy().Report(lost.Next, &deliverypb.Report{Id: "evt_1", Attempt: 1, Ok: true}, now+30)
	require.True(t, known)
	require.True(t, step.Delivered)
	_, is = policy().Lost(nil, now)
	require.False(t, is)
}
