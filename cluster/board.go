package cluster

import (
	"maps"
	"slices"
	"sync"
	"time"

	"parley/cluster/shard"
	"parley/proto/nodepb"
)

// Member is a node that gossip says is there.
type Member struct {
	Name string
	// Node names its data, Boot its start.
	Node    uint64
	Boot    string
	Leaving bool
}

// BoardConfig is what a Board needs. Self and Owners are required.
type BoardConfig struct {
	// Self is the name of this node. Its reports are kept like all others, but what it owns it tells Owners itself,
	// which is sooner.
	Self   string
	Owners *Owners
	// OnChange is called, if set, when something else than positions in logs changed. It must not block.
	OnChange func()
}

// Board keeps what every node last reported, and who is there. It tells Owners what follows from it: a node owns what
// it said it leads, until somebody leads under a newer epoch, it says otherwise, or it is gone. Which of several
// processes with one name is the node is for gossip to say: only the reports of that start count. It owns no goroutines
// and is safe for concurrent use.
type Board struct {
	config BoardConfig
	since  time.Time

	mu    sync.Mutex
	nodes map[string]*posted // those that are or were members
	// early has the newest report under each name of a start that is no member: of one that gossip does not know yet, or
	// not any more, or never will. It has no effect until its start is a member.
	early map[string]earlyReport
}

// posted is what is known of one name.
type posted struct {
	member Member
	gone   bool
	since  time.Time      // it is gone since then, as far as this node knows
	report *nodepb.Report // of the member's start, nil = none yet
	heard  time.Time
}

type earlyReport struct {
	report *nodepb.Report
	heard  time.Time
}

// maxNames bounds the members and the early reports: only nodes of this cluster get here, but some start under new names
// each time.
const maxNames = 1024

// NewBoard returns an empty board.
func NewBoard(config BoardConfig) *Board {
	return &Board{config: config, since: time.Now(), nodes: make(map[string]*posted), early: make(map[string]earlyReport)}
}

// Report takes a node's report, this one's included. One that was overtaken by a later one is ignored, one of a start
// that is no member is kept until it is. The report must not be changed afterwards.
func (b *Board) Report(report *nodepb.Report) {
	if b.post(report) && b.config.OnChange != nil {
		b.config.OnChange()
	}
}

func (b *Board) post(report *nodepb.Report) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.nodes[report.GetName()]
	if p == nil || p.member.Boot != report.GetBoot() {
		b.keepLocked(report)
		return false
	}
	before := p.report
	if before != nil && before.GetSequence() >= report.GetSequence() {
		return false
	}
	p.report, p.heard = report, time.Now()
	b.tellLocked(p, before)
	return !sameShape(before, report)
}

// keepLocked keeps the report of a start that is no member.
func (b *Board) keepLocked(report *nodepb.Report) {
	kept, known := b.early[report.GetName()]
	overtaken := kept.report.GetBoot() == report.GetBoot() && kept.report.GetSequence() >= report.GetSequence()
	if report.GetName() == "" || !known && len(b.early) >= maxNames || known && overtaken {
		return
	}
	b.early[report.GetName()] = earlyReport{report: report, heard: time.Now()}
}

// Members says which nodes are there, this one included. Nodes that are not among them are gone: nothing that they
// reported is believed until they are back.
func (b *Board) Members(live []Member) {
	if b.meet(live) && b.config.OnChange != nil {
		b.config.OnChange()
	}
}

func (b *Board) meet(live []Member) (changed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	here := make(map[string]bool, len(live))
	for _, m := range live {
		here[m.Name] = true
		p := b.entryLocked(m.Name)
		if p == nil || !p.gone && p.member == m {
			continue
		}
		changed = true
		if p.member.Boot != m.Boot {
			b.disownLocked(m.Name) // whatever it owned before it was started anew
			p.report = nil
		}
		p.member, p.gone = m, false
		if early, kept := b.early[m.Name]; kept && early.report.GetBoot() == m.Boot {
			delete(b.early, m.Name)
			p.report, p.heard = early.report, early.heard
		}
		b.tellLocked(p, nil)
	}
	for name, p := range b.nodes {
		if !here[name] && !p.gone && name != b.config.Self {
			p.gone, p.since, changed = true, time.Now(), true
			b.disownLocked(name)
		}
	}
	return changed
}

func (b *Board) entryLocked(name string) *posted {
	p := b.nodes[name]
	if p == nil && name != "" && len(b.nodes) < maxNames {
		p = &posted{gone: true, since: time.Now()}
		b.nodes[name] = p
	}
	return p
}

// tellLocked tells Owners what a node says of itself, if that is believed: it is there.
func (b *Board) tellLocked(p *posted, before *nodepb.Report) {
	if p.gone || p.report == nil || p.report.GetName() == b.config.Self {
		return
	}
	kept := make(map[uint32]bool, len(p.report.GetReplicas()))
	for _, r := range p.report.GetReplicas() {
		kept[r.GetShard()] = true
		owner := ownerOf(p.report, r)
		switch {
		case r.GetShard() > shard.MaxCount:
		case r.GetLeading():
			b.config.Owners.Set(owner)
		default:
			b.config.Owners.Unset(owner)
		}
	}
	for _, r := range before.GetReplicas() {
		if r.GetLeading() && !kept[r.GetShard()] {
			b.config.Owners.Unset(ownerOf(before, r))
		}
	}
}

func ownerOf(report *nodepb.Report, r *nodepb.Replica) Owner {
	return Owner{Node: report.GetName(), Shard: shard.ID(r.GetShard()), Epoch: shard.Epoch(r.GetEpoch())}
}

func (b *Board) disownLocked(name string) {
	if name != b.config.Self {
		b.config.Owners.unsetAll(name)
	}
}

// sameShape says that two reports differ in nothing but positions and sizes.
func sameShape(a, b *nodepb.Report) bool {
	if a == nil || a.GetBoot() != b.GetBoot() || a.GetLeaving() != b.GetLeaving() ||
		len(a.GetReplicas()) != len(b.GetReplicas()) || !slices.Equal(a.GetUnreached(), b.GetUnreached()) {
		return false
	}
	for i, x := range a.GetReplicas() {
		y := b.GetReplicas()[i]
		if x.GetShard() != y.GetShard() || x.GetLeading() != y.GetLeading() || x.GetEpoch() != y.GetEpoch() ||
			x.GetInitialised() != y.GetInitialised() || !slices.Equal(x.GetVoters(), y.GetVoters()) ||
			!slices.Equal(x.GetLearners(), y.GetLearners()) {
			return false
		}
	}
	return true
}

// Missing returns the other nodes that are there and say that they do not reach the author of a report: they do not hear
// what it says. There are none for the report of a start that is no member.
func (b *Board) Missing(report *nodepb.Report) []uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	author := b.nodes[report.GetName()]
	if author == nil || author.member.Boot != report.GetBoot() {
		return nil
	}
	var missing []uint64
	for name, p := range b.nodes {
		if name != b.config.Self && !p.gone && slices.Contains(p.report.GetUnreached(), report.GetNode()) {
			missing = append(missing, p.member.Node)
		}
	}
	slices.Sort(missing)
	return missing
}

// View is the board at one moment.
type View struct {
	At    time.Time
	Since time.Time  // the board was empty then
	Nodes []NodeView // by name
}

// NodeView is what is known of one node.
type NodeView struct {
	Name string
	// Node names its data, Boot its start.
	Node uint64
	Boot string
	// Gone says that it is not there, as far as gossip knows; GoneSince when that was heard, or when this node first
	// heard of it.
	Gone      bool
	GoneSince time.Time
	Leaving   bool
	// Heard is when its newest report came; zero = never since this node was started.
	Heard time.Time
	// Leads and Replicas count what it reported; a node that is gone leads nothing.
	Leads, Replicas int
	// Report is the newest, nil when there is none of this start. It must not be changed.
	Report *nodepb.Report
}

// Snapshot returns what is known now.
func (b *Board) Snapshot() View {
	b.mu.Lock()
	defer b.mu.Unlock()
	view := View{At: time.Now(), Since: b.since, Nodes: make([]NodeView, 0, len(b.nodes))}
	for _, name := range slices.Sorted(maps.Keys(b.nodes)) {
		view.Nodes = append(view.Nodes, b.nodes[name].view(name))
	}
	return view
}

func (p *posted) view(name string) NodeView {
	v := NodeView{
		Name: name, Node: p.member.Node, Boot: p.member.Boot, Gone: p.gone, GoneSince: p.since,
		Leaving: p.member.Leaving, Heard: p.heard,
	}
	if p.report == nil {
		return v
	}
	v.Report, v.Node = p.report, p.report.GetNode()
	v.Leaving = v.Leaving || p.report.GetLeaving()
	v.Replicas = len(p.report.GetReplicas())
	for _, r := range p.report.GetReplicas() {
		if r.GetLeading() && !p.gone {
			v.Leads++
		}
	}
	return v
}

// Name returns the newest name under which a node was known; false for one that was not heard of.
func (v *View) Name(node uint64) (string, bool) {
	i := slices.IndexFunc(v.Nodes, func(n NodeView) bool { return n.Node == node })
	if node == 0 || i < 0 {
		return "", false
	}
	return v.Nodes[i].Name, true
}
