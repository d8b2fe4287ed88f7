package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// messageChecker checks a streamed answer: frames numbered 1, 2, 3 without gap, duplicate or reorder, the numbered
// words of the scripted agents likewise, and the pieces adding up to the content in the final frame.
type messageChecker struct {
	seq   uint64
	words int
	text  []byte
	done  bool
	fault string
	code  string // stream.error
}

// frame checks one frame and reports whether it was a piece of text.
func (c *messageChecker) frame(f frame) (text bool) {
	if c.fault != "" {
		return false
	}
	if c.done {
		c.fault = "frame after the end"
		return false
	}
	if seq, ok := number(f.data, `"seq":`); ok {
		if seq != c.seq+1 {
			c.fault = fmt.Sprintf("seq %d after %d", seq, c.seq)
			return false
		}
		c.seq = seq
	}
	kind := f.event
	if len(kind) == 0 {
		kind, _ = quoted(f.data, `"type":`)
	}
	switch string(kind) {
	case "stream.start":
		if len(c.text) > 0 {
			c.fault = "stream.start after text"
		}
	case "stream.text":
		piece, plain := quoted(f.data, `"text":`)
		if !plain {
			piece = c.decodeText(f.data)
		}
		c.piece(piece)
		return true
	case "stream.done":
		c.end(f.data)
	case "stream.error":
		c.done = true
		c.code = "stream.error"
		if code, ok := quoted(f.data, `"code":`); ok {
			c.code += " " + string(code)
		}
	}
	return false
}

func (c *messageChecker) decodeText(data []byte) []byte {
	var message struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal(data, &message); err != nil {
		c.fault = "stream.text is no JSON"
	}
	return []byte(message.Text)
}

func (c *messageChecker) piece(piece []byte) {
	c.text = append(c.text, piece...)
	for word := range bytes.FieldsSeq(piece) {
		if len(word) < 2 || word[0] != 'w' {
			return
		}
		n, err := strconv.Atoi(string(bytes.TrimRight(word[1:], ".,")))
		if err != nil {
			return
		}
		if n != c.words+1 {
			c.fault = fmt.Sprintf("word %d after %d", n, c.words)
			return
		}
		c.words = n
	}
}

func (c *messageChecker) end(data []byte) {
	c.done = true
	var end struct {
		Content    string `json:"content"`
		StopReason string `json:"stopReason"`
	}
	switch err := json.Unmarshal(data, &end); {
	case err != nil:
		c.fault = "stream.done is no JSON"
	case end.Content != string(c.text):
		c.fault = fmt.Sprintf("streamed %d bytes, content has %d", len(c.text), len(end.Content))
	case end.StopReason != "end_turn":
		c.code = "stopped: " + end.StopReason
	}
}

// eventChecker checks an event stream: every event of the log comes once and in order, deltas fit the text they extend,
// and the stored answer begins with the streamed text, unless that is from an interrupted attempt and only the end of
// the next one was received.
type eventChecker struct {
	seq      uint64 // newest event seen
	run      string
	streamed []byte // text of the active run, as far as it was streamed
	void     bool   // streamed is from an interrupted attempt: the next one may differ
	fault    string
}

// reopened is called when the stream continues on a new connection. The text of an active run is sent from its
// beginning.
func (c *eventChecker) reopened() { c.run, c.streamed, c.void = "", nil, false }

// frame checks one frame and returns the seq of an event of the log, or 0.
func (c *eventChecker) frame(f frame) uint64 {
	if c.fault != "" {
		return 0
	}
	if len(f.id) == 0 {
		c.live(f)
		return 0
	}
	seq, err := strconv.ParseUint(string(f.id), 10, 64)
	if err != nil {
		c.fault = fmt.Sprintf("id %q", f.id)
		return 0
	}
	if inside, ok := number(f.data, `"seq":`); ok && inside != seq {
		c.fault = fmt.Sprintf("id %d with seq %d", seq, inside)
		return 0
	}
	if seq != c.seq+1 {
		c.fault = fmt.Sprintf("event %d after %d", seq, c.seq)
		return 0
	}
	c.seq = seq
	if string(f.event) == "session.recovered" {
		c.void = true
	}
	if len(c.streamed) > 0 && string(f.event) == "agent.message" {
		c.answer(f)
	}
	return seq
}

func (c *eventChecker) answer(f frame) {
	var event struct {
		RunID string `json:"run_id"`
		Data  struct {
			Content string `json:"content"`
		} `json:"data"`
	}
	if err := json.Unmarshal(f.data, &event); err != nil {
		c.fault = fmt.Sprintf("%s is no JSON", f.event)
		return
	}
	if event.RunID != c.run {
		return // a replayed one, while another run is active
	}
	if !c.void && !strings.HasPrefix(event.Data.Content, string(c.streamed)) {
		c.fault = fmt.Sprintf("streamed %.60q, answer is %.60q", c.streamed, event.Data.Content)
	}
	c.streamed, c.void = nil, false
}

func (c *eventChecker) live(f frame) {
	var change struct {
		Type  string `json:"type"`
		RunID string `json:"run_id"`
		Data  struct {
			Text   string `json:"text"`
			Offset uint64 `json:"offset"`
		} `json:"data"`
	}
	if err := json.Unmarshal(f.data, &change); err != nil {
		c.fault = fmt.Sprintf("%s is no JSON", f.event)
		return
	}
	switch change.Type {
	case "agent.message.snapshot":
		c.run, c.streamed, c.void = change.RunID, []byte(change.Data.Text), false
	case "agent.message.delta":
		if change.RunID != c.run || change.Data.Offset == 0 {
			c.run, c.streamed = change.RunID, c.streamed[:0]
		}
		if change.Data.Offset != uint64(len(c.streamed)) {
			c.fault = fmt.Sprintf("delta at %d, %d bytes seen", change.Data.Offset, len(c.streamed))
			return
		}
		c.streamed, c.void = append(c.streamed, change.Data.Text...), false
	}
}

// number finds `"key":123` in a flat JSON text. It only searches the text; anything unexpected is "not found".
func number(data []byte, key string) (uint64, bool) {
	at := bytes.Index(data, []byte(key))
	if at < 0 {
		return 0, false
	}
	rest := data[at+len(key):]
	for len(rest) > 0 && rest[0] == ' ' {
		rest = rest[1:]
	}
	var n uint64
	digits := 0
	for digits < len(rest) && rest[digits] >= '0' && rest[digits] <= '9' && digits < 19 {
		n = n*10 + uint64(rest[digits]-'0')
		digits++
	}
	return n, digits > 0
}

// quoted finds `"key":"text"` where the text has no escapes.
func quoted(data []byte, key string) ([]byte, bool) {
	at := bytes.Index(data, []byte(key))
	if at < 0 {
		return nil, false
	}
	rest := bytes.TrimLeft(data[at+len(key):], " ")
	if len(rest) == 0 || rest[0] != '"' {
		return nil, false
	}
	rest = rest[1:]
	end := bytes.IndexAny(rest, `"\`)
	if end < 0 || rest[end] == '\\' {
		return nil, false
	}
	return rest[:end], true
}
