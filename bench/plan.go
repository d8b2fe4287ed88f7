package bench

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// faultKind is a kind of fault.
type faultKind string

const (
	killNode    faultKind = "kill"    // SIGKILL, started again later
	bounceNode  faultKind = "bounce"  // SIGKILL, started again at once
	freezeNode  faultKind = "freeze"  // SIGSTOP, SIGCONT later
	restartNode faultKind = "restart" // SIGTERM, started again at once
	killTwo     faultKind = "kill two"
	loseDisk    faultKind = "lose disk" // SIGKILL, started again without its data
	isolateNode faultKind = "isolate"   // from all others, both ways
	muteNode    faultKind = "mute"      // it receives, but the others do not receive from it
	deafenNode  faultKind = "deafen"    // the others receive from it, but it does not receive
	partNodes   faultKind = "part"      // two nodes from each other, both ways; both reach the third
)

// faultKinds returns the kinds of faults for a run, the frequent ones several times.
func faultKinds(network bool, nodes int) []faultKind {
	kinds := []faultKind{killNode, killNode, killNode, bounceNode, freezeNode, freezeNode, freezeNode, restartNode, restartNode}
	if nodes > 2 {
		kinds = append(kinds, killTwo, loseDisk)
	}
	if network {
		kinds = append(kinds, isolateNode, isolateNode, muteNode, deafenNode, partNodes, partNodes)
	}
	return kinds
}

// planned is a fault to inject.
type planned struct {
	at      time.Duration // after the start
	lasts   time.Duration
	kind    faultKind
	victims []int
}

func (p planned) String() string {
	names := ""
	for _, v := range p.victims {
		names += fmt.Sprintf(" n%d", v+1)
	}
	return fmt.Sprintf("%s%s for %v", p.kind, names, p.lasts.Round(time.Millisecond))
}

// planFaults spreads faults over a time: one in each part, followed by a quiet period in which nodes recover. The same
// seed gives the same plan.
func planFaults(seed uint64, faults int, over time.Duration, nodes int, kinds []faultKind) []planned {
	const longest = 6 * time.Second // longer outages take time and reveal nothing new
	random := rand.New(rand.NewPCG(seed, 1))
	part := over / time.Duration(max(faults, 1))
	var plan []planned
	for n := range faults {
		lasts := min(part/10+time.Duration(random.Int64N(int64(part)/2)), longest)
		order := random.Perm(nodes)
		p := planned{
			at:    time.Duration(n)*part + time.Duration(random.Int64N(int64(part)/4)),
			lasts: lasts, kind: kinds[random.IntN(len(kinds))], victims: order[:1],
		}
		if p.kind == killTwo || p.kind == partNodes {
			p.victims = order[:2]
		}
		if p.kind == bounceNode || p.kind == restartNode {
			p.lasts = 0
		}
		plan = append(plan, p)
	}
	return plan
}
