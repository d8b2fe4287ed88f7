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

// A turn that was open in a former epoch may have crashed the process that owned the shard. So an owner that gives up a
// shard in an orderly way while something is open stores a hand-over record in it, as the head of an entity that no command
// can reach. Without the record the next owner assumes that the former one crashed (machine.Env.Survived); so does it when
// the record could not be written.

const (
	// maxPast bounds the past epochs of its own that a process remembers for each shard: a turn that has been open for
	// longer does not crash processes.
	maxPast = 32
	// handOverTimeout bounds writing the records while the system stops.
	handOverTimeout = 2 * time.Second
)

// handOverID is the id under which a shard's record is stored. No kind has its prefix.
func handOverID(shard uint32) string { return fmt.Sprintf("shard_%d", shard) }

// survived reports whether an epoch is known not to have ended by a crash of its owner.
func (t *term) survived(epoch uint64) bool {
	return epoch != 0 && (slices.Contains(t.past, epoch) || t.handed.Load() == epoch)
}

// readHandOver reads the former owner's record, once in a term.
func (h *host) readHandOver(t *term) error {
	if t.learned.Load() {
		return nil
	}
	s := h.system
	start := time.Now()
	ctx, cancel := context.WithTimeout(t.ctx, s.config.LoadTimeout)
	defer cancel()
	record, _, err := s.loadHandOver(ctx, h.shard)
	if err != nil {
		return err
	}
	if !h.prove(t, start) {
		return ErrNotOwner
	}
	t.handed.Store(record.GetEpoch())
	t.learned.Store(true)
	return nil
}

// loadHandOver returns the record of a shard, and the entry that would replace it.
func (s *System) loadHandOver(ctx context.Context, shard uint32) (*logpb.HandOver, *logpb.Append, error) {
	head, found, err := s.config.Journal.Load(ctx, shard, handOverID(shard))
	if err != nil {
		return nil, nil, err
	}
	record := &logpb.HandOver{}
	if err := proto.Unmarshal(head.State, record); err != nil {
		return nil, nil, fmt.Errorf("hand-over record: %w", err)
	}
	return record, &logpb.Append{Id: handOverID(shard), Create: !found, ExpectedSeq: head.Seq}, nil
}

// recordHandOver records which epoch ends in an orderly way, if anything is open: the term's, or 0 when it goes on after all.
func (s *System) recordHandOver(ctx context.Context, h *host, t *term, epoch uint64) {
	if err := s.writeHandOver(ctx, h, t, epoch); err != nil {
		s.log.Warn("hand-over not recorded: the next owner assumes that this one crashed", slog.Uint64("shard", uint64(h.shard)),
			slog.Uint64("epoch", t.epoch), slog.Any("err", err))
	}
}

func (s *System) writeHandOver(ctx context.Context, h *host, t *term, epoch uint64) error {
	if open, err := s.anyOpen(ctx, h.shard); err != nil || !open {
		return err
	}
	record, entry, err := s.loadHandOver(ctx, h.shard)
	if err != nil {
		return err
	}
	if record.GetEpoch() == epoch {
		return nil
	}
	entry.Epoch = t.epoch
	if entry.Head, err = proto.Marshal(&logpb.HandOver{Epoch: epoch}); err != nil {
		return err
	}
	result, err := s.config.Journal.Append(ctx, h.shard, entry)
	if err == nil && result.GetOutcome() != logpb.Outcome_APPLIED {
		err = fmt.Errorf("append returned %s", result.GetOutcome())
	}
	return err
}

// anyOpen reports whether an entity of a shard has open work.
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

// recordHandOvers calls recordHandOver for every owned shard when the system stops.
func (s *System) recordHandOvers(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), handOverTimeout)
	defer cancel()
	var written sync.WaitGroup
	defer written.Wait()
	for _, h := range *s.hosts.Load() {
		if h == nil {
			continue
		}
		if t := h.term.Load(); t != nil {
			written.Go(func() {
				within, end := t.within(ctx)
				defer end()
				s.recordHandOver(within, h, t, t.epoch)
			})
		}
	}
}
