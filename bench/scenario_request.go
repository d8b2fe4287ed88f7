package bench

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// runCreate measures POST /conversations.
func runCreate(ctx context.Context, o *Options, live *progress) (*Report, error) {
	c, err := newClient(o)
	if err != nil {
		return nil, err
	}
	defer c.close()
	body := c.createBody()
	l := &load{options: o, live: live, op: func(int, int) error {
		_, err := c.create(body)
		return err
	}}
	return measure(ctx, c, l)
}

// runTurn measures POST /conversations/:id/messages without streaming: one durable turn each.
func runTurn(ctx context.Context, o *Options, live *progress) (*Report, error) {
	c, err := newClient(o)
	if err != nil {
		return nil, err
	}
	defer c.close()
	ids, err := conversations(ctx, c, live, max(cmp.Or(o.Records, o.Concurrency), o.Concurrency))
	if err != nil {
		return nil, err
	}
	send := []byte(`{"message":"ping` + strings.Repeat(" ping", o.MessageBytes/len(" ping")) + `","stream":false}`)
	l := &load{options: o, live: live, op: func(caller, n int) error {
		// Each caller has its own conversations: concurrent turns in one are correctly refused.
		own := (len(ids) - caller + o.Concurrency - 1) / o.Concurrency
		id := ids[caller+(n%own)*o.Concurrency]
		return c.call("POST", "/conversations/"+id+"/messages", send, 200, completed)
	}}
	return measure(ctx, c, l)
}

func completed(answer []byte) error {
	if !bytes.Contains(answer, []byte(`"end_turn"`)) {
		return &callError{Status: 200, Code: "turn did not complete"}
	}
	return nil
}

// runRead measures GET /conversations/:id with -messages messages.
func runRead(ctx context.Context, o *Options, live *progress) (*Report, error) {
	c, err := newClient(o)
	if err != nil {
		return nil, err
	}
	defer c.close()
	ids, err := conversations(ctx, c, live, cmp.Or(o.Records, 256))
	if err != nil {
		return nil, err
	}
	send := []byte(`{"message":"a question of ordinary length, such as people ask of an assistant","stream":false}`)
	err = prepare(ctx, live, "writing messages", len(ids), func(i int) error {
		for range (o.Messages + 1) / 2 {
			if failed := c.call("POST", "/conversations/"+ids[i]+"/messages", send, 200, completed); failed != nil {
				return failed
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("write messages: %w", err)
	}
	least := []byte(`"messagesPage"`)
	l := &load{options: o, live: live, op: func(caller, n int) error {
		id := ids[(caller*31+n)%len(ids)]
		return c.call("GET", "/conversations/"+id, nil, 200, func(answer []byte) error {
			if !bytes.Contains(answer, least) {
				return &callError{Status: 200, Code: "bad answer"}
			}
			return nil
		})
	}}
	return measure(ctx, c, l)
}

// runList measures GET /conversations of a user who has -records of them.
func runList(ctx context.Context, o *Options, live *progress) (*Report, error) {
	if o.Token == "" {
		o.User += "-list-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	}
	c, err := newClient(o)
	if err != nil {
		return nil, err
	}
	defer c.close()
	records := cmp.Or(o.Records, 10_000)
	if _, err = conversations(ctx, c, live, records); err != nil {
		return nil, err
	}
	path := "/conversations?limit=20"
	if o.Token == "" {
		path += "&userId=" + url.QueryEscape(o.User)
	}
	err = c.call("GET", path, nil, 200, func(answer []byte) error {
		var page struct {
			Conversations []json.RawMessage `json:"conversations"`
			Total         int               `json:"total"`
		}
		if json.Unmarshal(answer, &page) != nil || len(page.Conversations) != min(20, records) || page.Total < records {
			return fmt.Errorf("list shows %d of %d conversations, %d were made", len(page.Conversations), page.Total, records)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	l := &load{options: o, live: live, op: func(int, int) error {
		return c.call("GET", path, nil, 200, nil)
	}}
	return measure(ctx, c, l)
}

func conversations(ctx context.Context, c *client, live *progress, n int) ([]string, error) {
	ids := make([]string, n)
	body := c.createBody()
	err := prepare(ctx, live, "creating conversations", n, func(i int) error {
		id, err := c.create(body)
		ids[i] = id
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("create conversations: %w", err)
	}
	return ids, nil
}

func measure(ctx context.Context, c *client, l *load) (*Report, error) {
	var before stats
	l.begin = func() {
		before = serverStats(ctx, l.options)
		c.begin(time.Now())
	}
	total, took := l.run(ctx)
	report := newReport(l.options, total, took)
	c.report(report, time.Now())
	before.difference(report, serverStats(ctx, l.options))
	return report, ctx.Err()
}

// noise returns an incompressible text of n letters.
func noise(n int) string {
	const letters = "abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	random := rand.New(rand.NewPCG(1, 2))
	text := make([]byte, n)
	for i := range text {
		text[i] = letters[random.IntN(len(letters))]
	}
	return string(text)
}
