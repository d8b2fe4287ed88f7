package password

import (
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// checks counts the passwords that were checked.
type checks struct{ count atomic.Int64 }

func (c *checks) add() { c.count.Add(1) }

// Register adds the pool's metrics.
func (p *Pool) Register(registerer prometheus.Registerer) error {
	if err := registerer.Register(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "parley_password_checks_total", Help: "Passwords that were compared with a hash, or with a decoy where there is no such user.",
	}, func() float64 { return float64(p.checks.count.Load()) })); err != nil {
		return err
	}
	return registerer.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "parley_password_hashes_pending", Help: "Password hashes that are being made or wait for it.",
	}, func() float64 { return float64(len(p.places)) }))
}

// decoy is a well-formed bcrypt hash of a cost whose sum no password is known to have.
func decoy(cost int) []byte {
	const salt, sum = 22, 31
	return []byte(fmt.Sprintf("$2a$%02d$", cost) + strings.Repeat(".", salt+sum))
}
