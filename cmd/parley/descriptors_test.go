package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestFewDescriptors lets 1,300 clients hold connections to a process that may open far fewer files: the surplus gets 503, the
// process lives and writes, and all is as before when they have left.
func TestFewDescriptors(t *testing.T) {
	const clients = 1300
	for _, limit := range []int{64, 256, 1024} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			p := newProcess(t, testAgents)
			p.files = limit
			p.start()
			id := p.create("quick")
			require.Equal(t, "end_turn", p.send(id, "before").StopReason)

			for range 2 {
				crowd := newCrowd(p, clients)
				t.Logf("limit %d: %v", limit, crowd.told)
				require.Empty(t, crowd.broken, "everybody is answered")
				require.GreaterOrEqual(t, crowd.told[http.StatusServiceUnavailable], clients-limit)
				require.Positive(t, crowd.told[http.StatusOK], "who was there first is served")
				require.Equal(t, clients, crowd.told[http.StatusOK]+crowd.told[http.StatusServiceUnavailable])
				status, _ := p.try("GET", "http://"+p.ops+"/healthz", nil)
				require.Equal(t, http.StatusOK, status, "operators get in")
				crowd.writes(t, id)
				crowd.leave()
				require.Eventually(t, func() bool {
					status, _ := p.try("POST", p.url("/conversations/"+id+"/messages"), map[string]any{"message": "after"})
					return status == http.StatusOK
				}, time.Minute, 10*time.Millisecond, "there is room again")
			}
			require.NoError(t, p.terminate())
			require.NotContains(t, p.log.String(), "level=ERROR")
		})
	}
}

// crowd is clients that hold on to their connections.
type crowd struct {
	mu     sync.Mutex
	open   []*guest
	told   map[int]int
	broken []error
}

type guest struct {
	net.Conn
	reader *bufio.Reader
	served bool
}

func newCrowd(p *process, size int) *crowd {
	c := &crowd{told: map[int]int{}}
	var all sync.WaitGroup
	for range size {
		all.Go(func() {
			g, status, err := enter(p.t.Context(), p)
			c.mu.Lock()
			defer c.mu.Unlock()
			if err != nil {
				c.broken = append(c.broken, err)
				return
			}
			c.open = append(c.open, g)
			c.told[status]++
		})
	}
	all.Wait()
	return c
}

func enter(ctx context.Context, p *process) (*guest, int, error) {
	conn, err := (&net.Dialer{Timeout: time.Minute}).DialContext(ctx, "tcp", p.listen)
	if err != nil {
		return nil, 0, err
	}
	g := &guest{Conn: conn, reader: bufio.NewReader(conn)}
	status, err := g.ask("GET /api/agents/conversations?userId=ada HTTP/1.1\r\nHost: localhost\r\n\r\n")
	g.served = status == http.StatusOK
	return g, status, err
}

func (g *guest) ask(request string) (int, error) {
	if err := g.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return 0, err
	}
	_, sent := g.Write([]byte(request)) // who is refused may be told before
	response, err := http.ReadResponse(g.reader, nil)
	if err != nil {
		return 0, errors.Join(err, sent)
	}
	return response.StatusCode, response.Body.Close()
}

// writes has one of those who are in send a message.
func (c *crowd) writes(t *testing.T, id string) {
	t.Helper()
	const body = `{"message":"meanwhile"}`
	for _, g := range c.open {
		if g.served {
			status, err := g.ask(fmt.Sprintf("POST /api/agents/conversations/%s/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", id, len(body), body))
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, status)
			return
		}
	}
}

func (c *crowd) leave() {
	for _, g := range c.open {
		_ = g.Close() // nothing is asked any more
	}
}

// limited runs a program that may open so many files.
func limited(files int, program string, args ...string) []string {
	script := fmt.Sprintf(`ulimit -n %d; exec "$0" "$@"`, files)
	return append([]string{"/bin/sh", "-c", script, program}, args...)
}
