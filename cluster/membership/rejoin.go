package membership

import (
	"context"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// rejoin looks for missing nodes. memberlist itself never contacts a node again that it has forgotten, so the two sides of a long
// partition would never reunite.
func (m *Membership) rejoin() {
	pause := m.config.Rejoin / 20
	var disputed time.Time // until when other members may take the previous start for the node
	for {
		missing := m.missing()
		switch {
		case time.Now().Before(disputed):
			m.join(m.wanted())
			pause = m.config.Rejoin / 10
		case len(missing) == 0:
			pause = m.config.Rejoin
		default:
			m.join(missing)
			// Often while no other member is known, as when a cluster starts, and less often afterwards.
			pause = min(2*pause, m.config.Rejoin)
			if m.list.NumMembers() > 1 {
				pause = m.config.Rejoin
			}
		}
		switch m.rest(pause) {
		case restedThrough:
		case stoodStill:
			m.join(m.wanted()) // it missed gossip, perhaps that another process has taken this node's name
		case inDispute:
			if now := time.Now(); now.After(disputed) {
				pause = m.config.Rejoin / 10
				disputed = now.Add(20 * m.config.Probe) // by then they have found the previous start dead
			}
		case restEnded:
			return
		}
	}
}

// rested is how a pause ended.
type rested int

const (
	restedThrough rested = iota
	stoodStill           // this process was suspended for a while
	inDispute            // another member refuses this process
	restEnded            // Stop was called
)

// rest pauses in steps. A step that takes much longer than it should shows that this process was suspended.
func (m *Membership) rest(pause time.Duration) rested {
	end := time.Now().Add(pause)
	for {
		step := min(m.config.Probe, time.Until(end))
		if step <= 0 {
			return restedThrough
		}
		began := time.Now()
		timer := time.NewTimer(step)
		select {
		case <-timer.C:
			if time.Since(began) > step+4*m.config.Probe { // long enough for other members to consider it dead
				return stoodStill
			}
		case <-m.disputed:
			timer.Stop()
			return inDispute
		case <-m.life.Done():
			timer.Stop()
			return restEnded
		}
	}
}

// missing returns the addresses of seeds and dead members at which there is no live member.
func (m *Membership) missing() []string {
	var alive []string
	for _, node := range m.table.all() {
		alive = append(alive, node.Address())
	}
	var missing []string
	for _, address := range m.wanted() {
		if !slices.Contains(alive, address) && !slices.Contains(missing, address) {
			missing = append(missing, address)
		}
	}
	return missing
}

// wanted returns the addresses of the seeds and of every member ever seen.
func (m *Membership) wanted() []string {
	places := maps.Clone(*m.places.Load())
	delete(places, m.config.Self.Name)
	wanted := slices.Collect(maps.Values(places))
	for _, seed := range m.config.Seeds {
		wanted = append(wanted, m.resolve(seed)...)
	}
	return wanted
}

// resolve returns the addresses of a seed, none if its name cannot be resolved right now.
func (m *Membership) resolve(seed string) []string {
	host, port, err := net.SplitHostPort(seed)
	if err != nil {
		return nil
	}
	if net.ParseIP(host) != nil {
		return []string{net.JoinHostPort(host, port)}
	}
	ctx, cancel := context.WithTimeout(m.life, resolveTimeout)
	defer cancel()
	hosts, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		m.log.Debug("seed has no address", slog.String("seed", seed), slog.Any("err", err))
		return nil
	}
	addresses := make([]string, 0, len(hosts))
	for _, h := range hosts {
		addresses = append(addresses, net.JoinHostPort(h, port))
	}
	return addresses
}

const resolveTimeout = 2 * time.Second

// join contacts nodes concurrently, since one that does not answer takes the whole timeout.
func (m *Membership) join(addresses []string) {
	var all sync.WaitGroup
	for _, address := range addresses {
		all.Go(func() {
			if _, err := m.list.Join([]string{address}); err != nil {
				m.log.Debug("node does not answer", slog.String("address", address), slog.Any("err", err))
			}
		})
	}
	all.Wait()
}

func udpAddress(node *memberlist.Node) net.Addr {
	return stringAddress(net.JoinHostPort(node.Addr.String(), strconv.Itoa(int(node.Port))))
}

type stringAddress string

// Network implements net.Addr.
func (stringAddress) Network() string { return "udp" }

// String implements net.Addr.
func (a stringAddress) String() string { return string(a) }
