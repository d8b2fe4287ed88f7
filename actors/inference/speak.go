package inference

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"parley/actors/machine/rawjson"
	"parley/actors/turn/model"
	"parley/proto/agentpb"
)

// speakChat asks a provider that does not speak the wire form.
func (c *Caller) speakChat(ctx context.Context, call *Call, t *target) (*completion, error) {
	spoken, err := c.speak(ctx, call, t, "chat", discard{})
	if err != nil && spoken == nil {
		return nil, err
	}
	said := &completion{choices: spoken.choices(), used: usageOf(spoken.answer)}
	said.used.guess(call, len(spoken.answer.Text))
	if err == nil && spoken.answer.Stop == model.StopLength && spoken.answer.Text == "" && len(spoken.answer.ToolCalls) == 0 {
		err = cutShort()
	}
	return said, err
}

// discard is the stream of a call whose answer is wanted whole.
type discard struct{}

// Text implements model.Stream.
func (discard) Text(string) {}

// ToolCall implements model.Stream.
func (discard) ToolCall(model.ToolCall) {}

// spoken is an answer of package model.
type spoken struct{ answer *model.Answer }

// speak makes the call. With an error there is a spoken only if the provider said something.
func (c *Caller) speak(ctx context.Context, call *Call, t *target, kind string, stream model.Stream) (*spoken, error) {
	provider, ok := c.parts.Providers[t.model.GetProvider()]
	if !ok {
		return nil, &Error{
			Status: http.StatusInternalServerError, Type: typeServer, Code: "inference_error",
			Message: "The model's provider cannot be called here", ours: true,
		}
	}
	request, refused := readChat(call, t)
	if refused != nil {
		return nil, refused
	}
	t.sent.Store(true) // package model does not say
	var answer *model.Answer
	err := c.attempts(ctx, t, kind, func(ctx context.Context) error {
		var err error
		answer, err = provider.Generate(ctx, request, stream)
		if err != nil {
			return fromModel(err, t.model)
		}
		return nil
	})
	if answer == nil || (err != nil && answer.Text == "" && !answer.Usage.Known) {
		return nil, err
	}
	return &spoken{answer: answer}, err
}

func usageOf(answer *model.Answer) consumed {
	usage := answer.Usage
	return consumed{
		input: usage.InputTokens, output: usage.OutputTokens, cached: usage.CachedInputTokens,
		total: usage.InputTokens + usage.OutputTokens, known: usage.Known,
	}
}

func finishOf(stop model.Stop) string {
	switch stop {
	case model.StopTools:
		return "tool_calls"
	case model.StopLength:
		return "length"
	case model.StopFilter:
		return "content_filter"
	case model.StopEnd:
	}
	return "stop"
}

// choices renders the answer.
func (s *spoken) choices() []byte {
	dst := []byte(`[{"index":0,"message":{"role":"assistant","content":`)
	if s.answer.Text == "" && len(s.answer.ToolCalls) > 0 {
		dst = append(dst, "null"...)
	} else {
		dst = rawjson.AppendString(dst, s.answer.Text)
	}
	dst = append(dst, `,"refusal":null,"annotations":[]`...)
	for i, call := range s.answer.ToolCalls {
		if i == 0 {
			dst = append(dst, `,"tool_calls":[`...)
		} else {
			dst = append(dst, ',')
		}
		dst = appendToolCall(dst, call)
		dst = append(dst, '}')
	}
	if len(s.answer.ToolCalls) > 0 {
		dst = append(dst, ']')
	}
	dst = append(dst, `},"logprobs":null,"finish_reason":`...)
	dst = rawjson.AppendString(dst, finishOf(s.answer.Stop))
	return append(dst, '}', ']')
}

// appendToolCall renders a tool call without its closing brace.
func appendToolCall(dst []byte, call model.ToolCall) []byte {
	dst = append(dst, `{"id":`...)
	dst = rawjson.AppendString(dst, call.ID)
	dst = append(dst, `,"type":"function","function":{"name":`...)
	dst = rawjson.AppendString(dst, call.Name)
	dst = append(dst, `,"arguments":`...)
	dst = rawjson.AppendString(dst, call.Arguments)
	return append(dst, '}')
}

// speakStream passes on what a provider that does not speak the wire form says.
func (c *Caller) speakStream(ctx context.Context, call *Call, t *target, out *chunks) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(context.Canceled)
	teller := &teller{out: out, cancel: cancel}
	spoken, err := c.speak(ctx, call, t, "chat-stream", teller)
	if spoken != nil && spoken.answer.Usage.Known {
		out.used = usageOf(spoken.answer)
	}
	if teller.failed != nil {
		return teller.failed
	}
	if err != nil {
		return err
	}
	out.used.guess(call, out.spoken)
	out.open(nil, nil, 0)
	if err := out.part(0, nil, nil, finishOf(spoken.answer.Stop), true); err != nil {
		return err
	}
	return out.close()
}

// teller turns what package model says into chunks.
type teller struct {
	out    *chunks
	cancel context.CancelCauseFunc
	calls  int
	failed error
}

// Text implements model.Stream.
func (t *teller) Text(piece string) {
	delta := append(rawjson.AppendString([]byte(`{"content":`), piece), '}')
	t.tell(delta)
}

// ToolCall implements model.Stream.
func (t *teller) ToolCall(call model.ToolCall) {
	delta := append(appendToolCall([]byte(`{"tool_calls":[`), call), `}]}`...)
	t.calls++
	t.tell(delta)
}

// Unsaid implements model.Overhearer: it counts for a call that is cut.
func (t *teller) Unsaid(piece string) { t.out.spoken += len(piece) }

func (t *teller) tell(delta []byte) {
	if t.failed != nil {
		return
	}
	t.out.open(nil, nil, 0)
	if t.failed = t.out.part(0, delta, nil, "", false); t.failed != nil {
		t.cancel(t.failed)
	}
}

// chatMessage is a message of the wire form.
type chatMessage struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	ToolCallID string          `json:"tool_call_id"`
	ToolCalls  []struct {
		ID       string `json:"id"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

// readChat turns a body into a request of package model.
func readChat(call *Call, t *target) (*model.Request, *Error) {
	if number(call.Body.Get("n")) > 1 {
		return nil, invalid("n", "`n` above 1 is not supported by this model")
	}
	if !rawjson.Modest(call.Body.Get("messages"), maxDepth, maxValues) {
		return nil, invalid("messages", "`messages` nest too deep or have too many parts for this model")
	}
	var said []chatMessage
	if json.Unmarshal(call.Body.Get("messages"), &said) != nil {
		return nil, invalid("messages", "`messages` must be an array of messages")
	}
	request := &model.Request{Agent: agentOf(call, t), RunID: randomHex(), MaxOutputTokens: int(min(outputCap(t, call), 1<<30))}
	var instructions []string
	for i := range said {
		message, system, refused := readMessage(&said[i])
		switch {
		case refused != nil:
			return nil, refused
		case system:
			instructions = append(instructions, message.Content)
			continue
		case message.Role == model.User:
			request.Step = 0
		case message.Role == model.Assistant:
			request.Step++
		}
		request.Messages = append(request.Messages, message)
	}
	request.Agent.Instructions = strings.Join(instructions, "\n\n")
	if call.Body.Text("tool_choice") == "none" {
		return request, nil
	}
	tools, refused := readTools(call.Body.Get("tools"))
	request.Tools = tools
	return request, refused
}

// agentOf is the model as an agent, with what the request asks for. Its window is the provider's business: nothing is left out
// of a request by us.
func agentOf(call *Call, t *target) *agentpb.Agent {
	own, _ := proto.Clone(t.model).(*agentpb.Model)
	const boundless = 1 << 30
	own.ContextTokens = boundless
	var value float64
	if raw := call.Body.Get("temperature"); raw != nil && json.Unmarshal(raw, &value) == nil {
		own.Temperature, own.HasTemperature = value, true
	}
	if raw := call.Body.Get("top_p"); raw != nil && json.Unmarshal(raw, &value) == nil {
		own.TopP, own.HasTopP = value, true
	}
	return &agentpb.Agent{Id: t.key, Name: t.record.GetName(), Model: own}
}

func randomHex() string {
	var random [12]byte
	_, _ = rand.Read(random[:]) // never fails, it ends the process instead
	return hex.EncodeToString(random[:])
}

func readMessage(said *chatMessage) (message model.Message, system bool, refused *Error) {
	text, images, refused := readContent(said.Content)
	if refused != nil {
		return message, false, refused
	}
	message = model.Message{Content: text}
	switch said.Role {
	case "system", "developer":
		return message, true, nil
	case "user":
		message.Role, message.Images = model.User, images
	case "assistant":
		message.Role = model.Assistant
		for _, call := range said.ToolCalls {
			message.ToolCalls = append(message.ToolCalls, model.ToolCall{
				ID: call.ID, Name: call.Function.Name, Arguments: call.Function.Arguments,
			})
		}
	case "tool":
		message.Role, message.ToolID = model.ToolRole, said.ToolCallID
	default:
		return message, false, invalid("messages", "a message's role must be system, developer, user, assistant or tool")
	}
	return message, false, nil
}

// readContent takes a text, or parts of text and pictures.
func readContent(raw json.RawMessage) (string, []model.Image, *Error) {
	if rawjson.IsNull(raw) {
		return "", nil, nil
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text, nil, nil
	}
	var parts []struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		Refusal  string `json:"refusal"`
		ImageURL struct {
			URL string `json:"url"`
		} `json:"image_url"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		return "", nil, invalid("messages", "a message's content must be a string or an array of parts")
	}
	var images []model.Image
	var texts []string
	for _, part := range parts {
		switch part.Type {
		case "text":
			texts = append(texts, part.Text)
		case "refusal":
			texts = append(texts, part.Refusal)
		case "image_url":
			image, ok := readImage(part.ImageURL.URL)
			if !ok {
				return "", nil, invalid("messages", "a picture must be a data URL of type image/png, image/jpeg, image/gif or image/webp for this model")
			}
			images = append(images, image)
		default:
			return "", nil, invalid("messages", "content parts of type "+shorten(part.Type)+" are not supported by this model")
		}
	}
	return strings.Join(texts, "\n"), images, nil
}

func readImage(address string) (model.Image, bool) {
	rest, ok := strings.CutPrefix(address, "data:")
	kind, encoded, found := strings.Cut(rest, ";base64,")
	if !ok || !found || !slices.Contains([]string{"image/png", "image/jpeg", "image/gif", "image/webp"}, kind) {
		return model.Image{}, false
	}
	data, err := base64.StdEncoding.DecodeString(encoded)
	return model.Image{MIME: kind, Data: data}, err == nil
}

func readTools(raw []byte) ([]model.Tool, *Error) {
	if raw == nil {
		return nil, nil
	}
	if !rawjson.Modest(raw, maxDepth, maxValues) {
		return nil, invalid("tools", "`tools` nest too deep or have too many parts for this model")
	}
	var tools []struct {
		Type     string `json:"type"`
		Function struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Parameters  json.RawMessage `json:"parameters"`
		} `json:"function"`
	}
	if json.Unmarshal(raw, &tools) != nil {
		return nil, invalid("tools", "`tools` must be an array of tools")
	}
	var known []model.Tool
	for _, tool := range tools {
		if tool.Type != "function" || tool.Function.Name == "" {
			return nil, invalid("tools", "a tool must be a function with a name")
		}
		one := model.Tool{Name: tool.Function.Name, Description: tool.Function.Description}
		if !rawjson.IsNull(tool.Function.Parameters) {
			one.Schema = tool.Function.Parameters
		}
		known = append(known, one)
	}
	return known, nil
}
