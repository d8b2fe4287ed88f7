package spending_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"parley/actors/core/quota"
	"parley/cmd/parley/node/spending"
	"parley/proto/directorypb"
)

// TestFiles: files that come through three nodes at once, while replies are lost, are together within a rate, whether it is known how large
// they are or not; who is refused takes nothing of it.
func TestFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		random := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // a seeded test
		at := newAllowances(func() bool {
			mu.Lock()
			defer mu.Unlock()
			return random.IntN(5) == 0
		})
		all := quota.Read([]*directorypb.QuotaPolicy{{
			Id: "qp_1", TenantId: "t", Scope: quota.Tenant, Domain: quota.File, Enabled: true,
			Limits: []byte(`{"rateLimit":{"files":{"perDay":30},"storage":{"perDay":100}},"perRequest":{"maxFileSize":5}}`),
		}})
		of := func(string) []*quota.Policy { return all }
		doors := []*spending.Door{newDoor(at, of), newDoor(at, of), newDoor(at, of)}
		defer func() {
			for _, door := range doors {
				door.Stop(context.WithoutCancel(t.Context()))
			}
		}()
		var files, bytes int64
		store := func(door *spending.Door, size int64, known bool) error {
			call := &quota.Call{TenantID: "t", Files: 1}
			if known {
				call.Bytes, call.Largest = size, size
			}
			pass, err := door.EnterFiles(t.Context(), call, !known)
			for came := int64(1); err == nil && !known && came <= size; came++ {
				err = pass.More(t.Context(), came)
			}
			if err != nil {
				if pass != nil {
					pass.Unkept()
				}
				return err
			}
			mu.Lock()
			files, bytes = files+1, bytes+size
			mu.Unlock()
			pass.Kept()
			return nil
		}
		for _, known := range []bool{true, false} {
			require.EqualError(t, store(doors[2], 6, known), "File size (6) exceeds limit (5)")
		}
		var calls sync.WaitGroup
		for i := range 60 {
			calls.Go(func() {
				time.Sleep(time.Duration(i/10) * time.Second)
				_ = store(doors[i%3], int64(1+i%5), i%2 == 0)
			})
		}
		calls.Wait()
		require.LessOrEqual(t, files, int64(30))
		require.LessOrEqual(t, bytes, int64(100))
		for range 2 { // what was refused takes nothing: the rest of it is there
			for bytes < 100 && files < 30 {
				require.NoError(t, store(doors[0], 1, bytes%2 == 0), "%d files, %d bytes", files, bytes)
			}
		}
		require.ErrorContains(t, store(doors[1], 1, true), "Rate limit exceeded for ")
		none, err := doors[0].Enter(t.Context(), &quota.Call{TenantID: "t", Domain: quota.LLM})
		require.NoError(t, err)
		require.Nil(t, none, "no call of another domain is counted")
	})
}
