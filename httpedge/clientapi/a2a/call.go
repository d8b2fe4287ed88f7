package a2a

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strings"
	"time"

	"parley/httpedge/a2a/protocol"
	"parley/httpedge/endpoint"
	"parley/proto/agentpb"
)

// callAgentIn is a JSON-RPC request, or a batch of them.
type callAgentIn struct {
	Key    string          `path:"agentKey"`
	Accept string          `header:"Accept" doc:"text/event-stream: errors of methods that stream come as an event, too"`
	RPC    string          `json:"jsonrpc" enum:"2.0" required:"true"`
	ID     callID          `json:"id" doc:"A string, a number or null"`
	Method string          `json:"method" required:"true" doc:"Of 0.3: message/send, message/stream, tasks/get, tasks/cancel, tasks/resubscribe, tasks/pushNotificationConfig/set, get, list and delete. Of 1.0: SendMessage, SendStreamingMessage, GetTask, CancelTask, SubscribeToTask, CreateTaskPushNotificationConfig, GetTask..., ListTask...s and DeleteTask..."`
	Params json.RawMessage `json:"params" any:"true"`

	body []byte
}

// SetBody implements endpoint.BodyTaker.
func (in *callAgentIn) SetBody(body []byte) { in.body = body }

// call is one call that is being carried out.
type call struct {
	protocol.Call
	protocol.Method

	agent   *agentpb.Agent
	stream  endpoint.Stream // nil in a batch
	refused error           // why it is not begun, nil = it may be
}

// result writes what a call comes to; nil = a stream has begun.
type result func(dst []byte) []byte

// callAgent answers JSON-RPC. Before an agent was found, refusals are those of the Client API; after that the status is 200.
func (a *api) callAgent(ctx context.Context, in *callAgentIn, stream endpoint.Stream) (*answer, error) {
	agent, err := a.exposed(ctx, in.Key)
	if err != nil {
		return nil, err
	}
	body := protocol.Read(in.body)
	if !body.Batch {
		one := &call{Call: body.Calls[0], agent: agent, stream: stream}
		text := a.answer(ctx, one)
		if text == nil {
			return nil, nil //nolint:nilnil // a stream has begun
		}
		return &answer{text: text, event: one.Streams() && strings.Contains(in.Accept, eventStream)}, nil
	}
	return &answer{text: a.batch(ctx, agent, body.Calls)}, nil
}

// maxAnswers is how many bytes the answers of a batch may have before its next call is not begun: a short call may have a long answer.
const maxAnswers = 8 << 20

// batch carries out calls one after another and returns the JSON of their answers. Each call counts as a request. The first one was
// counted with the request that they came in.
func (a *api) batch(ctx context.Context, agent *agentpb.Agent, calls []protocol.Call) []byte {
	text := []byte{'['}
	for i := range calls {
		one := &call{Call: calls[i], agent: agent}
		deadline, bounded := ctx.Deadline()
		switch {
		case bounded && time.Until(deadline) <= room:
			one.refused = protocol.NotBegun("the calls before it have taken too long")
		case len(text) > maxAnswers:
			one.refused = protocol.NotBegun("the answers before it are too long")
		case i > 0:
			one.refused = endpoint.CountAgain(ctx)
		}
		if i > 0 {
			text = append(text, ',')
		}
		text = append(text, a.answer(ctx, one)...)
	}
	return append(text, ']')
}

// answer carries out a call and returns the JSON of what it is answered with, nil when a stream has begun.
func (a *api) answer(ctx context.Context, c *call) []byte {
	done, err := a.carryOut(ctx, c)
	switch {
	case err != nil:
		return protocol.AppendError(nil, c.ID, c.Version, a.worded(ctx, err))
	case done == nil:
		return nil
	}
	return protocol.AppendResult(nil, c.ID, done)
}

func (a *api) carryOut(ctx context.Context, c *call) (result, error) {
	if c.Broken != nil {
		return nil, c.Broken
	}
	var known bool
	if c.Method, known = protocol.MethodOf(c.Name); !known {
		return nil, &protocol.Error{Code: protocol.CodeMethodNotFound, Message: "Method not found: " + c.Name}
	}
	if c.Streams() && c.stream == nil {
		return nil, &protocol.Error{Code: protocol.CodeInvalidRequest, Message: "Invalid Request: a batch cannot hold " + c.Name}
	}
	if c.refused != nil {
		return nil, c.refused
	}
	switch c.Operation {
	case protocol.SendMessage:
		return a.send(ctx, c)
	case protocol.StreamMessage:
		return a.streamMessage(ctx, c)
	case protocol.GetTask:
		return a.getTask(ctx, c)
	case protocol.CancelTask:
		return a.cancelTask(ctx, c)
	case protocol.SubscribeToTask:
		return a.subscribe(ctx, c)
	case protocol.SetPush, protocol.GetPush, protocol.ListPushes, protocol.DeletePush:
		return a.configurePush(ctx, c)
	default:
		return nil, protocol.Internal()
	}
}

// worded is an error as the caller is told. What is wrong with the request is of its parameters, what a rule refused is of the
// server, with the Client API's code as data. Of what broke only the log learns.
func (a *api) worded(ctx context.Context, err error) *protocol.Error {
	if said, is := errors.AsType[*protocol.Error](err); is {
		return said
	}
	problem := endpoint.ProblemOf(ctx, err)
	switch problem.Status {
	case http.StatusInternalServerError:
		return protocol.Internal()
	case http.StatusBadRequest:
		return protocol.InvalidParams("%s", problem.Message)
	}
	details := map[string]any{"status": problem.Status}
	maps.Copy(details, problem.Details)
	if seconds := problem.RetrySeconds(); seconds > 0 {
		details["retry_after"] = seconds
	}
	return &protocol.Error{Code: protocol.CodeRefused, Message: problem.Message, Reason: problem.Code, Details: details}
}

const eventStream = "text/event-stream"

// answer is the body of what is answered at once.
type answer struct {
	text  []byte
	event bool // as the only event of a stream: clients of streams read nothing else
}

// ContentType implements endpoint.ContentTyper.
func (r *answer) ContentType() string {
	if r.event {
		return eventStream
	}
	return "application/json"
}

// AppendJSON implements endpoint.Appender.
func (r *answer) AppendJSON(dst []byte) []byte {
	if !r.event {
		return append(dst, r.text...)
	}
	return append(append(append(dst, "data: "...), r.text...), "\n\n"...)
}

// Either implements openapi.Either.
func (r *answer) Either() []any { return []any{callAnswerSchema{}, []callAnswerSchema{}} }

// callID is what a caller finds the answer by.
type callID struct{ json.RawMessage }

// Either implements openapi.Either.
func (callID) Either() []any { return []any{"", float64(0), nil} }

type callAnswerSchema struct {
	RPC    string          `json:"jsonrpc" enum:"2.0"`
	ID     callID          `json:"id" doc:"That of the call, null where it has none"`
	Result json.RawMessage `json:"result,omitempty" any:"true" doc:"A task; 1.0 wraps that of a message: {task}"`
	Error  *errorSchema    `json:"error,omitempty"`
}

type errorSchema struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty" any:"true"`
}
