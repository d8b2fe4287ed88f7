package spending_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/actors/core/quota"
	"parley/cmd/parley/node/spending"
	"parley/proto/allowancepb"
	"parley/proto/conversationpb"
	"parley/proto/directorypb"
	"parley/proto/tracepb"
)

// shelf is an allowance beside the shards that keep files.
type shelf struct {
	*allowances
	size int64 // of each file

	count sync.Mutex
	there int64
	reads atomic.Int64 // of what is there
}

// Read implements entity.Client. It takes its time, in which files come and go.
func (s *shelf) Read(_ context.Context, query proto.Message) (proto.Message, error) {
	if s.loses() {
		return nil, errLost
	}
	time.Sleep(10 * time.Millisecond)
	switch query.(type) {
	case *allowancepb.UsedQuery:
		s.mu.Lock()
		defer s.mu.Unlock()
		state, _ := s.state.(*allowancepb.State)
		return &allowancepb.UsedReply{State: state}, nil
	case *tracepb.KeptQuery:
		return &tracepb.KeptReply{Sessions: s.add(0)}, nil
	default:
		s.reads.Add(1)
		n := s.add(0)
		return &conversationpb.KeptFilesReply{Files: n, Bytes: n * s.size}, nil
	}
}

func (s *shelf) add(delta int64) int64 {
	s.count.Lock()
	defer s.count.Unlock()
	s.there += delta
	return s.there
}

// TestKeptFiles: files that are stored and deleted through three nodes at once are never more than a quota says, while replies are lost;
// what is free is had, and who is refused takes nothing.
func TestKeptFiles(t *testing.T) {
	for seed := range uint64(10) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a seeded test
				draw := func(n int) int {
					mu.Lock()
					defer mu.Unlock()
					return random.IntN(n)
				}
				const most = 10
				s := &shelf{allowances: newAllowances(func() bool { return draw(8) == 0 }), size: 3}
				limits := fmt.Sprintf(`{"quotas":{"maxFilesTotal":%d,"maxStorageBytes":-1}}`, most)
				if seed%2 == 0 {
					limits = fmt.Sprintf(`{"quotas":{"maxStorageBytes":%d}}`, most*s.size+1)
				}
				all := quota.Read([]*directorypb.QuotaPolicy{{Id: "qp_1", TenantId: "t", Scope: quota.Tenant, Domain: quota.Global, Enabled: true, Limits: []byte(limits)}})
				of := func(string) []*quota.Policy { return all }
				doors := []*spending.Door{newDoor(s, of), newDoor(s, of), newDoor(s, of)}
				defer func() {
					for _, door := range doors {
						door.Stop(context.WithoutCancel(t.Context()))
					}
				}()
				store := func(door *spending.Door, known bool) error {
					call := &quota.Call{TenantID: "t", Files: 1}
					if known {
						call.Bytes, call.Largest = s.size, s.size
					}
					pass, err := door.EnterFiles(t.Context(), call, !known)
					if err == nil && !known {
						err = pass.More(t.Context(), s.size)
					}
					if err != nil {
						if pass != nil {
							pass.Unkept()
						}
						return err
					}
					time.Sleep(time.Duration(draw(50)) * time.Millisecond)
					if draw(5) == 0 {
						pass.Unkept() // somebody else refused it
						return nil
					}
					require.LessOrEqual(t, s.add(1), int64(most))
					time.Sleep(time.Duration(draw(50)) * time.Millisecond)
					pass.Kept()
					return nil
				}
				var calls sync.WaitGroup
				for i := range 60 {
					calls.Go(func() {
						time.Sleep(time.Duration(draw(3000)) * time.Millisecond)
						_ = store(doors[i%3], i%2 == 0)
						if draw(2) == 0 && s.add(0) > 0 {
							s.add(-1)
						}
					})
				}
				calls.Wait()
				for s.add(0) < most {
					require.NoError(t, store(doors[0], true), "%d are there", s.add(0))
				}
				time.Sleep(time.Minute)
				var refused *quota.Refusal
				require.ErrorAs(t, store(doors[1], true), &refused)
				words := "files limit reached (10/10)"
				if seed%2 == 0 {
					words = "storage limit reached (30/31)"
				}
				require.Equal(t, words, refused.Message)
				s.add(-1)
				for s.add(0) < most {
					require.NoError(t, store(doors[2], false))
				}
			})
		})
	}
}

// TestKeptSessions: of sessions that are reported through three nodes at once, some of them together, as many are let in as may be kept,
// while replies are lost, and one that is removed makes room.
func TestKeptSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lost atomic.Int64
		const most = 20
		s := &shelf{allowances: newAllowances(func() bool { return lost.Add(1)%7 == 0 })}
		all := quota.Read([]*directorypb.QuotaPolicy{{Id: "qp_1", TenantId: "t", Scope: quota.Tenant, Domain: quota.Tracing, Enabled: true, Limits: []byte(`{"quotas":{"maxTracingSessions":20}}`)}})
		of := func(string) []*quota.Policy { return all }
		doors := []*spending.Door{newDoor(s, of), newDoor(s, of), newDoor(s, of)}
		defer func() {
			for _, door := range doors {
				door.Stop(context.WithoutCancel(t.Context()))
			}
		}()
		report := func(door *spending.Door, sessions int64) error {
			pass, err := door.EnterSessions(t.Context(), &quota.Call{TenantID: "t", Sessions: sessions})
			if err != nil {
				return err
			}
			time.Sleep(30 * time.Millisecond)
			require.LessOrEqual(t, s.add(sessions), int64(most))
			pass.Kept()
			return nil
		}
		var calls sync.WaitGroup
		for i := range 60 {
			calls.Go(func() { _ = report(doors[i%3], int64(1+i%4)) })
		}
		calls.Wait()
		for s.add(0) < most {
			require.NoError(t, report(doors[0], 1), "%d are there", s.add(0))
		}
		var refused *quota.Refusal
		require.ErrorAs(t, report(doors[1], 2), &refused)
		require.Equal(t, []any{"tracingSessions limit reached (20/20)", "tracingSessions", int64(20), int64(20)}, []any{refused.Message, refused.Full, refused.Count, refused.Most})
		s.add(-1)
		require.Error(t, report(doors[2], 2))
		require.NoError(t, report(doors[2], 1))
		none, err := doors[0].EnterSessions(t.Context(), &quota.Call{TenantID: "t"})
		require.NoError(t, err)
		require.Nil(t, none, "a report of what is known is not bounded")
	})
}

// TestPiecesAreNotCountedAnew: what is kept is counted once in a while for the pieces of a file, not for each; before one is refused it is
// counted again, so that what was deleted meanwhile makes room, and what others store meanwhile is beside it.
func TestPiecesAreNotCountedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pieces, most = 300, 1000
		s := &shelf{allowances: newAllowances(func() bool { return false }), size: 1, there: most - pieces}
		all := quota.Read([]*directorypb.QuotaPolicy{{
			Id: "qp_1", TenantId: "t", Scope: quota.Tenant, Domain: quota.File, Enabled: true, Limits: fmt.Appendf(nil, `{"quotas":{"maxStorageBytes":%d}}`, most),
		}})
		doors := []*spending.Door{newDoor(s, func(string) []*quota.Policy { return all }), newDoor(s, func(string) []*quota.Policy { return all })}
		defer func() {
			for _, door := range doors {
				door.Stop(context.WithoutCancel(t.Context()))
			}
		}()
		pass, err := doors[0].EnterFiles(t.Context(), &quota.Call{TenantID: "t", Files: 1}, true)
		require.NoError(t, err)
		for came := range int64(pieces) {
			require.NoError(t, pass.More(t.Context(), came+1))
			time.Sleep(10 * time.Millisecond)
		}
		require.LessOrEqual(t, s.reads.Load(), int64(4))
		var refused *quota.Refusal
		require.ErrorAs(t, pass.More(t.Context(), pieces+1), &refused)
		s.add(-2)
		require.NoError(t, pass.More(t.Context(), pieces+1), "two were deleted")
		other, err := doors[1].EnterFiles(t.Context(), &quota.Call{TenantID: "t", Files: 1, Bytes: 1, Largest: 1}, false)
		require.NoError(t, err)
		s.add(1)
		other.Kept()
		require.ErrorAs(t, pass.More(t.Context(), pieces+2), &refused, "another node stored one")
		pass.Unkept()
	})
}
