package replica

import (
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"go.etcd.io/raft/v3/raftpb"
)

// maxApplyBatch is the size of entries at which a batch is committed even if more are queued.
const maxApplyBatch = 8 << 20

// applyItem is work for the apply goroutine: committed entries of one group with those who wait for them, or a barrier.
type applyItem struct {
	group     *group
	entries   []*raftpb.Entry
	responses []*raftpb.Message
	waiters   []*proposal
	// conf is the membership after the last of confs membership changes among the entries.
	conf  *raftpb.ConfState
	confs int
	// barrier is closed when everything before it has been applied, or will never be.
	barrier chan struct{}
}

// applier applies committed entries of all groups. Everything queued goes into one batch, at most one Apply call per group, without a sync: the log has it.
type applier struct {
	driver  *Driver
	touched []*group
	bytes   int
	done    []applied
	// items have been taken from the queue and may hold waiters.
	items []applyItem
}

func (a *applier) run() {
	d := a.driver
	for {
		a.items = d.applies.take()
		if len(a.items) == 0 {
			return
		}
		for i := range a.items {
			if d.Err() != nil {
				return
			}
			if a.items[i].barrier != nil {
				a.flush()
				close(a.items[i].barrier)
				a.items[i].barrier = nil
				continue
			}
			a.stage(a.items[i])
			a.items[i].waiters = nil
			if a.bytes > maxApplyBatch {
				a.flush()
			}
		}
		a.flush()
		if d.Err() != nil {
			return
		}
		d.applies.recycle(a.items)
		a.items = nil
	}
}

func (a *applier) stage(item applyItem) {
	g := item.group
	if len(g.apply.items) == 0 {
		a.touched = append(a.touched, g)
	}
	g.apply.items = append(g.apply.items, item)
	for _, e := range item.entries {
		if e.GetIndex() <= g.apply.last || e.GetType() != raftpb.EntryNormal || len(e.GetData()) == 0 {
			continue
		}
		g.apply.entries = append(g.apply.entries, Entry{Index: e.GetIndex(), Term: e.GetTerm(), Data: e.GetData()})
		a.bytes += len(e.GetData())
	}
}

func (a *applier) flush() {
	if len(a.touched) == 0 {
		return
	}
	d := a.driver
	begin := time.Now()
	batch := d.cfg.DB.NewBatch()
	results := make([][]any, len(a.touched))
	for i, g := range a.touched {
		var err error
		if results[i], err = a.applyGroup(batch, g); err != nil {
			d.Fail(fmt.Errorf("apply entries of group %d: %w", g.id, err))
			return
		}
	}
	if !d.commit("apply entries", batch, pebble.NoSync) {
		return
	}
	d.metrics.applySeconds.Observe(time.Since(begin).Seconds())
	for i, g := range a.touched {
		a.finishGroup(g, results[i])
		a.touched[i] = nil
	}
	a.touched, a.bytes = a.touched[:0], 0
	d.inbox.pushApplied(a.done)
	clear(a.done)
	a.done = a.done[:0]
}

func (a *applier) applyGroup(batch *pebble.Batch, g *group) ([]any, error) {
	var results []any
	if len(g.apply.entries) > 0 {
		var err error
		if results, err = a.driver.cfg.Machine.Apply(batch, g.id, g.apply.entries); err != nil {
			return nil, err
		}
		if len(results) != len(g.apply.entries) {
			return nil, fmt.Errorf("%d results for %d entries", len(results), len(g.apply.entries))
		}
	}
	if err := batch.Set(g.keys.row(kindApplied), encodePosition(g.batchEnd()), nil); err != nil {
		return nil, fmt.Errorf("stage applied index: %w", err)
	}
	for _, item := range g.apply.items {
		if item.conf == nil {
			continue
		}
		row, err := encodeMessage(item.conf)
		if err != nil {
			return nil, err
		}
		if err := batch.Set(g.keys.row(kindConfState), row, nil); err != nil {
			return nil, fmt.Errorf("stage membership: %w", err)
		}
	}
	return results, nil
}

// batchEnd is the position of the newest entry in the batch.
func (g *group) batchEnd() position {
	entries := g.apply.items[len(g.apply.items)-1].entries
	last := entries[len(entries)-1]
	return position{index: last.GetIndex(), term: last.GetTerm()}
}

// finishGroup answers the proposals of a committed batch and reports the batch to the loop.
func (a *applier) finishGroup(g *group, results []any) {
	d := a.driver
	end := g.batchEnd()
	n := 0
	for i, item := range g.apply.items {
		for _, p := range item.waiters {
			for n < len(g.apply.entries) && g.apply.entries[n].Index < p.at.index {
				n++
			}
			switch {
			case p.kind != raftpb.EntryNormal:
				d.answer(p, nil, nil)
			case n < len(g.apply.entries) && g.apply.entries[n].Index == p.at.index && g.apply.entries[n].Term == p.at.term:
				d.answer(p, results[n], nil)
			default:
				d.answer(p, nil, ErrOutcomeUnknown)
			}
		}
		a.done = append(a.done, applied{group: g, at: end, confs: item.confs, responses: item.responses})
		g.apply.items[i] = applyItem{}
	}
	d.metrics.appliedEntries.Add(float64(len(g.apply.entries)))
	g.apply.last = end.index
	clear(g.apply.entries)
	g.apply.entries, g.apply.items = g.apply.entries[:0], g.apply.items[:0]
}

// abandon answers proposals that this process will not apply.
func (a *applier) abandon() {
	d := a.driver
	d.applies.close()
	for _, g := range a.touched {
		if g == nil {
			continue
		}
		for i := range g.apply.items {
			d.answerAll(g.apply.items[i].waiters, d.unknownErr())
		}
	}
	a.abandonItems(a.items)
	for items := d.applies.take(); len(items) > 0; items = d.applies.take() {
		a.abandonItems(items)
	}
}

func (a *applier) abandonItems(items []applyItem) {
	for i := range items {
		a.driver.answerAll(items[i].waiters, a.driver.unknownErr())
		if items[i].barrier != nil {
			close(items[i].barrier)
			items[i].barrier = nil
		}
	}
}
