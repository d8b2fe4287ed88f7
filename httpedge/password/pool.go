package password

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync"

	// bcrypt: the hash that document 3 asks for; the Go project's own.
	"golang.org/x/crypto/bcrypt"

	"parley/actors/core/failure"
	"parley/proto/failurepb"
)

// Config is the settings of a pool.
type Config struct {
	Workers   int // hashes at a time
	MaxQueued int // that may wait, besides
	// Cost of new hashes, an exponent.
	Cost int
	// Command starts a worker; nil = hashes are made in this process.
	Command []string
}

// DefaultConfig returns the defaults, without a command. Half of the processors may be at work, one at least and four at most, so that all
// others find one free: a low priority alone does not give it to them at once (bench/RESULTS.md, "Sign-ins").
func DefaultConfig() Config {
	const most = 4
	return Config{Workers: min(max(runtime.NumCPU()/2, 1), most), MaxQueued: 256, Cost: 12}
}

// Pool makes and checks hashes. It is safe for concurrent use.
type Pool struct {
	config  Config
	logger  *slog.Logger
	places  chan struct{} // of those that wait or are worked on
	workers chan *worker  // idle ones
	checks  checks

	decoyOnce sync.Once
	decoy     []byte
}

// New returns a pool. Stop ends its workers.
func New(config Config, logger *slog.Logger) *Pool {
	p := &Pool{
		config: config, logger: logger,
		places: make(chan struct{}, config.Workers+config.MaxQueued), workers: make(chan *worker, config.Workers),
	}
	for range config.Workers {
		p.workers <- &worker{command: config.Command, logger: logger}
	}
	return p
}

// Stop ends the workers. It waits for hashes that are being made.
func (p *Pool) Stop() {
	for range p.config.Workers {
		w := <-p.workers
		w.stop()
	}
}

// Hash returns the hash of a password of at most 72 bytes.
func (p *Pool) Hash(ctx context.Context, password string) ([]byte, error) {
	reply, err := p.do(ctx, request{Cost: p.config.Cost, Password: []byte(password)})
	return reply.Hash, err
}

// Matches says whether a password is that of a hash. Without a hash it says no, after the time that a check takes.
func (p *Pool) Matches(ctx context.Context, hash []byte, password string) (bool, error) {
	asked := request{Hash: hash, Password: []byte(password)}
	const longest = 72 // bcrypt ignores the rest
	unknown := len(hash) == 0 || len(password) > longest
	if unknown {
		asked = request{Hash: p.decoyHash(), Password: asked.Password[:min(len(password), longest)]}
	}
	p.checks.add()
	reply, err := p.do(ctx, asked)
	return reply.Matches && !unknown, err
}

// decoyHash is a hash of the pool's cost that no password has: all its bits after the salt are zero.
func (p *Pool) decoyHash() []byte {
	p.decoyOnce.Do(func() { p.decoy = decoy(p.config.Cost) })
	return p.decoy
}

func (p *Pool) do(ctx context.Context, asked request) (reply, error) {
	select {
	case p.places <- struct{}{}:
		defer func() { <-p.places }()
	default:
		return reply{}, failure.New(failurepb.Code_UNAVAILABLE, failure.TooManyHashes)
	}
	select {
	case w := <-p.workers:
		defer func() { p.workers <- w }()
		return w.do(ctx, asked)
	case <-ctx.Done():
		return reply{}, ctx.Err()
	}
}

// request is one hash to make, or, with a hash, one to check.
type request struct {
	Cost     int    `json:"cost,omitempty"`
	Hash     []byte `json:"hash,omitempty"`
	Password []byte `json:"password"`
}

type reply struct {
	Hash    []byte `json:"hash,omitempty"`
	Matches bool   `json:"matches,omitempty"`
	Error   string `json:"error,omitempty"`
}

// answer carries a request out.
func (r request) answer() reply {
	if len(r.Hash) == 0 {
		hash, err := bcrypt.GenerateFromPassword(r.Password, r.Cost)
		if err != nil {
			return reply{Error: err.Error()}
		}
		return reply{Hash: hash}
	}
	switch err := bcrypt.CompareHashAndPassword(r.Hash, r.Password); {
	case err == nil:
		return reply{Matches: true}
	case errors.Is(err, bcrypt.ErrMismatchedHashAndPassword):
		return reply{}
	default:
		return reply{Error: err.Error()}
	}
}
