package model

import (
	"fmt"
	"net/url"
	"strings"

	"parley/actors/provider"
	"parley/proto/agentpb"
)

// protocol is how a connected agent is asked, and how its reply is read.
type protocol struct {
	path string // of the request, behind the configured URL
	body func(connection *agentpb.Connection, said []Message) any
	// read tells the recorder what a reply says. empty: there is a text, and nothing in it.
	read func(body []byte, secrets provider.Redactor, out *recorder) (empty bool, err error)
	// header is set on the request; empty = none.
	header [2]string
	next   *protocol // the same in its next version, for agents that do not know this one; nil = there is none
}

//nolint:gochecknoglobals // a constant table
var protocols = map[string]protocol{
	"a2a": {
		body: a2aBody, read: readA2A, next: &protocol{body: a2a10Body, read: readA2A, header: [2]string{"A2A-Version", "1.0"}},
	},
	"openai-chat":      {path: "/chat/completions", body: chatBody, read: readChat},
	"openai-responses": {path: "/responses", body: responsesBody, read: readResponses},
}

// address is where to post: the path is not doubled when the URL has it already.
func (p *protocol) address(configured string) (string, error) {
	if p.path == "" {
		return configured, nil
	}
	base, err := url.Parse(configured)
	if err != nil {
		return "", invalid("the connected agent's URL is not a usable http or https URL")
	}
	trimmed := strings.TrimRight(base.EscapedPath(), "/")
	if !strings.HasSuffix(trimmed, p.path) {
		trimmed += p.path
	}
	if base.Path, err = url.PathUnescape(trimmed); err != nil {
		return "", invalid("the connected agent's URL is not a usable http or https URL")
	}
	base.RawPath, base.Fragment = trimmed, ""
	return base.String(), nil
}

// turnsOf is what was said, as another agent is told: what this side's tools did is not part of it.
func turnsOf(request *Request) []Message {
	var said []Message
	for _, message := range history(request) {
		blank := strings.TrimSpace(message.Content) == "" && len(message.Images) == 0
		if message.Role != ToolRole && !blank {
			said = append(said, message)
		}
	}
	return said
}

// wireMessage is a message of both openai kinds. Content is a text, or parts where there are pictures.
type wireMessage struct {
	Role    Role `json:"role"`
	Content any  `json:"content"`
}

type wirePart struct {
	Type     string `json:"type"`
	Text     string `json:"text,omitempty"`
	ImageURL any    `json:"image_url,omitempty"`
}

// textPart is the part with the text, if there is any: pictures need no words.
func textPart(kind, text string) []wirePart {
	if text == "" {
		return nil
	}
	return []wirePart{{Type: kind, Text: text}}
}

func chatBody(connection *agentpb.Connection, said []Message) any {
	messages := make([]wireMessage, 0, len(said))
	for _, message := range said {
		wire := wireMessage{message.Role, message.Content}
		if len(message.Images) > 0 {
			parts := textPart("text", message.Content)
			for _, image := range message.Images {
				parts = append(parts, wirePart{Type: "image_url", ImageURL: map[string]string{"url": dataURL(image)}})
			}
			wire.Content = parts
		}
		messages = append(messages, wire)
	}
	return struct {
		Model    string        `json:"model"`
		Messages []wireMessage `json:"messages"`
	}{connection.GetModel(), messages}
}

func responsesBody(connection *agentpb.Connection, said []Message) any {
	input := make([]wireMessage, 0, len(said))
	for _, message := range said {
		wire := wireMessage{message.Role, message.Content}
		if len(message.Images) > 0 {
			parts := textPart("input_text", message.Content)
			for _, image := range message.Images {
				parts = append(parts, wirePart{Type: "input_image", ImageURL: dataURL(image)})
			}
			wire.Content = parts
		}
		input = append(input, wire)
	}
	return struct {
		Model string        `json:"model"`
		Input []wireMessage `json:"input"`
	}{connection.GetModel(), input}
}

type a2aPart struct {
	Kind string   `json:"kind"`
	Text string   `json:"text,omitempty"`
	File *a2aFile `json:"file,omitempty"`
}

type a2aFile struct {
	MIME  string `json:"mimeType"`
	Bytes []byte `json:"bytes"`
}

type a2aMessage struct {
	Role      string `json:"role"`
	MessageID string `json:"messageId"`
	Parts     any    `json:"parts"`
}

type a2aParams struct {
	Message a2aMessage `json:"message"`
}

// a2aBody makes one message of all that was said; the pictures are those of the newest.
func a2aBody(_ *agentpb.Connection, said []Message) any {
	var parts []a2aPart
	if text := a2aSaid(said); text != "" {
		parts = append(parts, a2aPart{Kind: "text", Text: text})
	}
	for _, image := range said[len(said)-1].Images {
		parts = append(parts, a2aPart{Kind: "file", File: &a2aFile{image.MIME, image.Data}})
	}
	return a2aCall("message/send", len(said), a2aMessage{Role: "user", Parts: parts})
}

// a2aPart10 is a part in 1.0: what it holds says what it is.
type a2aPart10 struct {
	Text      string `json:"text,omitempty"`
	Raw       []byte `json:"raw,omitempty"`
	MediaType string `json:"mediaType,omitempty"`
}

// a2a10Body is a2aBody in version 1.0.
func a2a10Body(_ *agentpb.Connection, said []Message) any {
	var parts []a2aPart10
	if text := a2aSaid(said); text != "" {
		parts = append(parts, a2aPart10{Text: text})
	}
	for _, image := range said[len(said)-1].Images {
		parts = append(parts, a2aPart10{Raw: image.Data, MediaType: image.MIME})
	}
	return a2aCall("SendMessage", len(said), a2aMessage{Role: "ROLE_USER", Parts: parts})
}

// a2aSaid is all that was said, as one text.
func a2aSaid(said []Message) string {
	text := said[len(said)-1].Content
	if len(said) > 1 {
		lines := make([]string, 0, len(said))
		for _, message := range said {
			who := "User: "
			if message.Role == Assistant {
				who = "Assistant: "
			}
			lines = append(lines, who+message.Content)
		}
		text = strings.Join(lines, "\n")
	}
	return text
}

func a2aCall(method string, number int, message a2aMessage) any {
	message.MessageID = fmt.Sprintf("msg-%d", number)
	return struct {
		Version string    `json:"jsonrpc"`
		ID      string    `json:"id"`
		Method  string    `json:"method"`
		Params  a2aParams `json:"params"`
	}{"2.0", fmt.Sprintf("req-%d", number), method, a2aParams{message}}
}
