package live

import (
	"context"
	"crypto/rand"
	"strings"
	"sync"

	"parley/actors/core/failure"
	"parley/actors/core/follow"
	"parley/httpedge/sse"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// Follow subscribes to a project's feed at the owner of a shard. ctx bounds the set-up only.
type Follow func(ctx context.Context, shard uint32, tenantID, projectID string, sink follow.Sink) (cancel func(), err error)

// Feeds is an upstream of a hub: of the streams of lists, and by another upstream of those of conversations.
type Feeds struct {
	sse.Upstream

	shards []uint32
	follow Follow
	mark   string          // begins the names of topics: nobody outside can name one
	ctx    context.Context //nolint:containedctx // of all follows; ends with Stop
	stop   context.CancelFunc
	tasks  sync.WaitGroup

	mu       sync.Mutex
	projects map[place]*project
	readers  map[string]*reader // by topic
	stopped  bool
}

// place is a project.
type place struct{ tenantID, projectID string }

// New returns the feeds of these shards. Conversations are followed by the other upstream.
func New(conversations sse.Upstream, shards []uint32, by Follow) *Feeds {
	ctx, stop := context.WithCancel(context.Background())
	return &Feeds{
		Upstream: conversations, shards: shards, follow: by, mark: rand.Text() + "/", ctx: ctx, stop: stop,
		projects: make(map[place]*project), readers: make(map[string]*reader),
	}
}

// Stop ends all follows.
func (f *Feeds) Stop() {
	f.mu.Lock()
	f.stopped = true
	f.mu.Unlock()
	f.stop()
	f.tasks.Wait()
}

// spawn runs a task of the feeds' own; false once they are stopped.
func (f *Feeds) spawn(task func()) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped {
		return false
	}
	f.tasks.Go(task)
	return true
}

// Topic is what a stream of the lists of a project follows at the hub: all rows, or those of a user.
func (f *Feeds) Topic(tenantID, projectID, userID string, all bool) string {
	if all {
		userID = "" // then nobody's is asked for
	}
	parts := []string{tenantID, projectID, userID}
	for i := range parts {
		parts[i] = strings.NewReplacer("%", "%25", "/", "%2F").Replace(parts[i])
	}
	kind := "user"
	if all {
		kind = "all"
	}
	return f.mark + kind + "/" + strings.Join(parts, "/")
}

// Follow implements sse.Upstream. It returns when the shards are followed, or some of them cannot be for now: they say reset once they
// are.
func (f *Feeds) Follow(ctx context.Context, id string, sink follow.Sink) (*conversationpb.Snapshot, func(), error) {
	named, is := strings.CutPrefix(id, f.mark)
	if !is {
		return f.Upstream.Follow(ctx, id, sink)
	}
	parts := strings.Split(named, "/")
	for i := range parts {
		parts[i] = strings.NewReplacer("%2F", "/", "%25", "%").Replace(parts[i])
	}
	r := &reader{topic: id, sink: sink, all: parts[0] == "all", userID: parts[3]}
	at := place{parts[1], parts[2]}

	f.mu.Lock()
	if f.stopped {
		f.mu.Unlock()
		return nil, nil, failure.New(failurepb.Code_UNAVAILABLE, failure.ServerStopping)
	}
	p := f.projects[at]
	opened := p == nil
	if opened {
		p = newProject(f, at)
		f.projects[at] = p
	}
	p.readers++
	f.readers[id] = r
	f.mu.Unlock()

	if opened {
		p.openAll() //nolint:contextcheck // follows outlive the request that opened them
	}
	var once sync.Once
	cancel := func() { once.Do(func() { f.leave(p, r) }) }
	if err := p.await(ctx); err != nil {
		cancel()
		return nil, nil, err
	}
	p.join(r)
	return &conversationpb.Snapshot{Epoch: topicEpoch}, cancel, nil
}

// topicEpoch is that of all changes of a topic: it does not end with an owner's.
const topicEpoch = 1

// leave ends a reader's part, and the follows of a project that nobody reads any more.
func (f *Feeds) leave(p *project, r *reader) {
	p.part(r)
	f.mu.Lock()
	if f.readers[r.topic] == r {
		delete(f.readers, r.topic)
	}
	p.readers--
	last := p.readers == 0
	if last {
		delete(f.projects, p.place)
	}
	f.mu.Unlock()
	if last {
		p.close()
	}
}

// Events implements sse.Upstream. Nothing is kept of lists: whoever has not got what was sent begins anew.
func (f *Feeds) Events(ctx context.Context, id string, after uint64, limit int) ([]*conversationpb.Event, uint64, error) {
	if !strings.HasPrefix(id, f.mark) {
		return f.Upstream.Events(ctx, id, after, limit)
	}
	f.mu.Lock()
	r := f.readers[id]
	f.mu.Unlock()
	if r == nil {
		return nil, 0, failure.New(failurepb.Code_UNAVAILABLE, failure.CannotFollow)
	}
	last := r.sent.Load()
	if after < last {
		return nil, 0, failure.New(failurepb.Code_NOT_FOUND, failure.EventsMissed)
	}
	return nil, last, nil
}
