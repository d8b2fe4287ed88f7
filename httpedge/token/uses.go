package token

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/collection"
	"parley/actors/core/identity"
	"parley/proto/directorypb"
)

const (
	useEvery   = time.Minute // a token's last use is written at most this often
	useQueue   = 256         // writes that wait; above that they are dropped
	useTimeout = 5 * time.Second
)

// uses records when tokens were last used, in the background.
type uses struct {
	records collection.Store
	logger  *slog.Logger
	queue   chan use
	cancel  context.CancelFunc // nil = not running
	running sync.WaitGroup
}

type use struct {
	token version // its record, which must still be there
	id    string
	at    int64 // Unix ms
}

func newUses(records collection.Store, logger *slog.Logger) *uses {
	return &uses{records: records, logger: logger, queue: make(chan use, useQueue)}
}

// last is when the token's use was last written, Unix ms; 0 = never.
func (u *uses) last(id string) int64 {
	record, ok := u.records.Get(identity.TokenUses, id)
	if !ok {
		return 0
	}
	var last directorypb.TokenUse
	if err := proto.Unmarshal(record.Value, &last); err != nil {
		return 0
	}
	return last.GetLastUsedAt()
}

// note queues the write of a use unless one was written a moment ago. It never blocks: when the queue is full, the use is dropped.
func (u *uses) note(e *entry, now time.Time) {
	at := now.UnixMilli()
	before := e.lastUse.Load()
	if at-before < useEvery.Milliseconds() || !e.lastUse.CompareAndSwap(before, at) {
		return
	}
	select {
	case u.queue <- use{token: e.basis.records[0], id: e.tokenID, at: at}:
	default:
	}
}

func (u *uses) start() {
	ctx, cancel := context.WithCancel(context.Background())
	u.cancel = cancel
	u.running.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case noted := <-u.queue:
				u.write(ctx, noted)
			}
		}
	})
}

func (u *uses) stop() {
	if u.cancel != nil {
		u.cancel()
		u.running.Wait()
	}
}

// write stores a use unless another node has just done so, which is also what a conflict means.
func (u *uses) write(ctx context.Context, noted use) {
	if _, ok := u.records.Get(noted.token.collection, noted.token.key); !ok {
		return // deleted meanwhile: it must not leave anything behind
	}
	if noted.at-u.last(noted.id) < useEvery.Milliseconds() {
		return
	}
	value, err := proto.Marshal(&directorypb.TokenUse{LastUsedAt: noted.at})
	if err != nil {
		return // of a single number
	}
	ctx, cancel := context.WithTimeout(ctx, useTimeout)
	defer cancel()
	record, _ := u.records.Get(identity.TokenUses, noted.id)
	if _, err := u.records.Put(ctx, identity.TokenUses, noted.id, record.Version, value); err != nil {
		u.logger.Debug("use of an api token is not noted", slog.Any("err", err))
	}
}
