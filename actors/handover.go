package actors

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/proto/logpb"
)

// What an entity of a former epoch had open may be what ended the process that owned it. So whoever gives a shard up in
// order with something open leaves word of that in the shard, as the head of an entity that no command can reach; without
// it the next owner takes the former one for dead (machine.Env.Survived). A word that could not be left errs on that side.

const (
	// maxPast bounds the epochs that a process remembers of itself for each shard: an entity that is open longer is none of
	// those that end processes.
	maxPast = 32
	// handOverTimeout bounds leaving word while the system stops.
	handOverTimeout = 2 * time.Second
)

// handOverID is the entity. No kind has its prefix.
func handOverID(shard uint32) string { return fmt.Sprintf("shard_%d", shard) }

// survived says of an epoch whether it is known not to have ended with its owner's process.
func (t *term) survived(epoch uint64) bool {
	return epoch != 0 && (slices.Contains(t.past, epoch) || t.handed.Load() == epoch)
}

// learn reads the former owner's word, once in a term.
func (h *host) readHandOver(t *term) error {
	if t.learned.Load() {
		return nil
	}
	s := h.system
	start := time.Now()
	ctx, cancel := context.WithTimeout(t.ctx, s.config.LoadTimeout)
	defer cancel()
	word, _, err := s.loadHandOver(ctx, h.shard)
	if err != nil {
		return err
	}
	if !h.prove(t, start) {
		return ErrNotOwner
	}
	t.handed.Store(word.GetEpoch())
	t.learned.Store(true)
	return nil
}

// loadHandOver returns the word in a shard, and the entry that would replace it.
func (s *System) loadHandOver(ctx context.Context, shard uint32) (*logpb.HandOver, *logpb.Append, error) {
	head, found, err := s.config.Journal.Load(ctx, shard, handOverID(shard))
	if err != nil {
		return nil, nil, err
	}
	word := &logpb.HandOver{}
	if err := proto.Unmarshal(head.State, word); err != nil {
		return nil, nil, fmt.Errorf("word of the former owner: %w", err)
	}
	return word, &logpb.Append{Id: handOverID(shard), Create: !found, ExpectedSeq: head.Seq}, nil
}

// recordHandOver says, if anything is open, which epoch ends in order: the term's, or 0 when it goes on after all.
func (s *System) recordHandOver(ctx context.Context, h *host, t *term, said uint64) {
	if err := s.writeHandOver(ctx, h, t, said); err != nil {
		s.log.Warn("no word is left for the next owner: it takes this one for dead", slog.Uint64("shard", uint64(h.shard)),
			slog.Uint64("epoch", t.epoch), slog.Any("err", err))
	}
}

func (s *System) writeHandOver(ctx context.Context, h *host, t *term, said uint64) error {
	if open, err := s.anyOpen(ctx, h.shard); err != nil || !open {
		return err
	}
	word, entry, err := s.loadHandOver(ctx, h.shard)
	if err != nil {
		return err
	}
	if word.GetEpoch() == said {
		return nil
	}
	entry.Epoch = t.epoch
	if entry.Head, err = proto.Marshal(&logpb.HandOver{Epoch: said}); err != nil {
		return err
	}
	result, err := s.config.Journal.Append(ctx, h.shard, entry)
	if err == nil && result.GetOutcome() != logpb.Outcome_APPLIED {
		err = fmt.Errorf("append said %s", result.GetOutcome())
	}
	return err
}

// anyOpen says whether an entity of a shard has something open.
func (s *System) anyOpen(ctx context.Context, shard uint32) (open bool, err error) {
	for _, kind := range s.kinds {
		if kind.Running == "" {
			continue
		}
		if err := s.config.Journal.Running(ctx, shard, kind.Running, func(string) { open = true }); err != nil {
			return false, err
		}
	}
	return open, nil
}

// recordHandOvers is recordHandOver for all that the system owns, when it stops.
func (s *System) recordHandOvers(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), handOverTimeout)
	defer cancel()
	var said sync.WaitGroup
	defer said.Wait()
	for _, h := range *s.hosts.Load() {
		if h == nil {
			continue
		}
		if t := h.term.Load(); t != nil {
			said.Go(func() {
				within, end := t.within(ctx)
				defer end()
				s.recordHandOver(within, h, t, t.epoch)
			})
		}
	}
}
