package cluster

import (
	"maps"
	"slices"
	"sync"
	"time"

	"parley/cluster/shard"
	"parley/proto/nodepb"
)

// Member is a live node according to gossip.
type Member struct {
	Name string
	// Node identifies its data directory, Boot the start of its process.
	Node    uint64
	Boot    string
	Leaving bool
}

// BoardConfig configures a Board. Self and Owners are required.
type BoardConfig struct {
	// Self is the name of this node. Its reports are kept like all others, but they do not update Owners: the node does that
	// itself, and earlier.
	Self   string
	Owners *Owners
	// OnChange, if set, is called when anything but log positions and sizes changed. It must not block.
	OnChange func()
}

// Board keeps the last report of every node and the list of live members, and updates Owners from both: a node owns the shards
// that it reports as led, until another one leads them under a newer epoch, it reports otherwise, or it is gone. If several
// processes use one name, gossip decides which of them is the node, and only reports of that start count. A Board starts no
// goroutines and is safe for concurrent use.
type Board struct {
	config BoardConfig
	since  time.Time

	mu    sync.Mutex
	nodes map[string]*nodeState // present and former members
	// early holds, by name, the newest report of a start that is not a member: gossip does not know it yet, or no longer, or
	// never will. It has no effect until that start becomes a member.
	early map[string]earlyReport
}

// nodeState is what is known about the node of one name.
type nodeState struct {
	member Member
	gone   bool
	since  time.Time      // when this node learned that it is gone
	report *nodepb.Report // the newest of the member's start, nil = none yet
	heard  time.Time
}

type earlyReport struct {
	report *nodepb.Report
	heard  time.Time
}

// maxNames bounds the members and the early reports: all of them are nodes of this cluster, but some use a new name at each
// start.
const maxNames = 1024

// NewBoard returns an empty board.
func NewBoard(config BoardConfig) *Board {
	return &Board{config: config, since: time.Now(), nodes: make(map[string]*nodeState), early: make(map[string]earlyReport)}
}

// Report takes a report, also this node's own. An outdated report is ignored; one of a start that is not a member is kept until
// it is. The report must not be changed afterwards.
func (b *Board) Report(report *nodepb.Report) {
	if b.addReport(report) && b.config.OnChange != nil {
		b.config.OnChange()
	}
}

// addReport reports whether anything but log positions and sizes changed.
func (b *Board) addReport(report *nodepb.Report) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.nodes[report.GetName()]
	if p == nil || p.member.Boot != report.GetBoot() {
		b.keepEarlyLocked(report)
		return false
	}
	before := p.report
	if before != nil && before.GetSequence() >= report.GetSequence() {
		return false
	}
	p.report, p.heard = report, time.Now()
	b.updateOwnersLocked(p, before)
	return !sameShape(before, report)
}

// keepEarlyLocked keeps the report of a start that is not a member.
func (b *Board) keepEarlyLocked(report *nodepb.Report) {
	kept, known := b.early[report.GetName()]
	outdated := kept.report.GetBoot() == report.GetBoot() && kept.report.GetSequence() >= report.GetSequence()
	if report.GetName() == "" || !known && len(b.early) >= maxNames || known && outdated {
		return
	}
	b.early[report.GetName()] = earlyReport{report: report, heard: time.Now()}
}

// Members sets the live nodes, this one included. All other nodes are gone, and their reports do not count until they return.
func (b *Board) Members(live []Member) {
	if b.setMembers(live) && b.config.OnChange != nil {
		b.config.OnChange()
	}
}

func (b *Board) setMembers(live []Member) (changed bool) {
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
			b.disownLocked(m.Name) // a restart ends its ownership
			p.report = nil
		}
		p.member, p.gone = m, false
		if early, kept := b.early[m.Name]; kept && early.report.GetBoot() == m.Boot {
			delete(b.early, m.Name)
			p.report, p.heard = early.report, early.heard
		}
		b.updateOwnersLocked(p, nil)
	}
	for name, p := range b.nodes {
		if !here[name] && !p.gone && name != b.config.Self {
			p.gone, p.since, changed = true, time.Now(), true
			b.disownLocked(name)
		}
	}
	return changed
}

// entryLocked returns the state of a name, and adds it if there is room; nil if not.
func (b *Board) entryLocked(name string) *nodeState {
	p := b.nodes[name]
	if p == nil && name != "" && len(b.nodes) < maxNames {
		p = &nodeState{gone: true, since: time.Now()}
		b.nodes[name] = p
	}
	return p
}

// updateOwnersLocked passes a live node's report on to Owners. before is its previous report, nil = none.
func (b *Board) updateOwnersLocked(p *nodeState, before *nodepb.Report) {
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

// sameShape reports whether two reports differ in log positions and sizes only.
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

// Missing returns the other live nodes that do not reach the author of a report, and so do not receive it. It returns none if
// the report is of a start that is not a member.
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

// View is a consistent copy of the board.
type View struct {
	At    time.Time
	Since time.Time  // when the board was created, empty
	Nodes []NodeView // by name
}

// NodeView is what is known about one node.
type NodeView struct {
	Name string
	// Node identifies its data directory, Boot the start of its process.
	Node uint64
	Boot string
	// Gone means that gossip does not list the node as live; GoneSince is when this node learned that, or first learned of the
	// node.
	Gone      bool
	GoneSince time.Time
	Leaving   bool
	// Heard is when its newest report arrived; zero = none since this node started.
	Heard time.Time
	// Leads and Replicas are the numbers of shards that it leads and holds by its report; a node that is gone leads nothing.
	Leads, Replicas int
	// Report is the newest report of this start, nil = none. It must not be changed.
	Report *nodepb.Report
}

// Snapshot returns a copy of the present state.
func (b *Board) Snapshot() View {
	b.mu.Lock()
	defer b.mu.Unlock()
	view := View{At: time.Now(), Since: b.since, Nodes: make([]NodeView, 0, len(b.nodes))}
	for _, name := range slices.Sorted(maps.Keys(b.nodes)) {
		view.Nodes = append(view.Nodes, b.nodes[name].view(name))
	}
	return view
}

func (p *nodeState) view(name string) NodeView {
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

// Name returns the name of a node; false if the node is not known.
func (v *View) Name(node uint64) (string, bool) {
	i := slices.IndexFunc(v.Nodes, func(n NodeView) bool { return n.Node == node })
	if node == 0 || i < 0 {
		return "", false
	}
	return v.Nodes[i].Name, true
}
