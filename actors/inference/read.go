package inference

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"google.golang.org/protobuf/proto"

	"parley/actors/machine/rawjson"
	"parley/actors/turn/model"
	"parley/proto/agentpb"
)

// chatMessage is a message of the wire form.
type chatMessage struct {
	Role         string          `json:"role"`
	Name         string          `json:"name"`
	Content      json.RawMessage `json:"content"`
	Refusal      string          `json:"refusal"`
	Audio        json.RawMessage `json:"audio"`
	FunctionCall json.RawMessage `json:"function_call"`
	ToolCallID   string          `json:"tool_call_id"`
	CacheControl json.RawMessage `json:"cache_control"`
	ToolCalls    []struct {
		ID       string `json:"id"`
		Type     string `json:"type"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

// readChat turns a body into a request of package model.
func readChat(call *Call, t *target) (*model.Request, *Error) {
	asked := t.asked(call)
	agent, refused := agentOf(asked, t)
	if refused != nil {
		return nil, refused
	}
	limit, refused := outputCap(t, call)
	if refused != nil {
		return nil, refused
	}
	request := &model.Request{Agent: agent, RunID: randomHex(), MaxOutputTokens: int(min(limit, 1<<30))}
	if refused = readMessages(asked.Get("messages"), request); refused != nil {
		return nil, refused
	}
	if request.Tools, refused = readTools(asked.Get("tools")); refused != nil {
		return nil, refused
	}
	settings, refused := translate(t, asked, request.Tools)
	if refused != nil {
		return nil, refused
	}
	settings.Cache = request.Settings.Cache
	request.Settings = settings
	if t.model.GetProvider() == agentpb.Provider_SCRIPTED && asked.Text("tool_choice") == "none" {
		request.Tools = nil
	}
	return request, nil
}

func readMessages(raw []byte, request *model.Request) *Error {
	if !rawjson.Modest(raw, maxDepth, maxValues) {
		return invalid("messages", "`messages` nest too deep or have too many parts for this model")
	}
	var said []chatMessage
	if json.Unmarshal(raw, &said) != nil {
		return invalid("messages", "`messages` must be an array of messages")
	}
	var instructions strings.Builder
	open := map[string]bool{} // tool calls that have no result yet
	for i := range said {
		message, system, refused := readMessage(&said[i])
		switch {
		case refused != nil:
			return refused
		case message.Role == model.ToolRole && !open[message.ToolID]:
			return invalid("messages", "a message of role tool must follow the message with its tool call, whose id is its tool_call_id")
		case message.Role == model.ToolRole:
			delete(open, message.ToolID)
		case len(open) > 0:
			return invalid("messages", "a message with tool_calls must be followed by a message of role tool for each of them")
		}
		for _, call := range message.ToolCalls {
			open[call.ID] = true
		}
		switch {
		case system:
			if instructions.Len() > 0 {
				instructions.WriteString("\n\n")
			}
			for _, point := range message.Cache {
				point.At += instructions.Len()
				request.Settings.Cache = append(request.Settings.Cache, point)
			}
			instructions.WriteString(message.Content)
			continue
		case message.Role == model.User:
			request.Step = 0
		case message.Role == model.Assistant:
			request.Step++
		}
		request.Messages = append(request.Messages, message)
	}
	request.Agent.Instructions = instructions.String()
	return nil
}

// agentOf is the model as an agent, with what the request asks for. Its window is the provider's business: nothing is left out
// of a request by us.
func agentOf(asked rawjson.Fields, t *target) (*agentpb.Agent, *Error) {
	own, _ := proto.Clone(t.model).(*agentpb.Model)
	const boundless = 1 << 30
	own.ContextTokens = boundless
	for name, set := range map[string]func(float64){
		"temperature": func(value float64) { own.Temperature, own.HasTemperature = value, true },
		"top_p":       func(value float64) { own.TopP, own.HasTopP = value, true },
	} {
		raw := asked.Get(name)
		if raw == nil {
			continue
		}
		var value float64
		if json.Unmarshal(raw, &value) != nil {
			return nil, invalid(name, "`"+name+"` must be a number")
		}
		set(value)
	}
	return &agentpb.Agent{Id: t.key, Name: t.record.GetName(), Model: own}, nil
}

func randomHex() string {
	var random [12]byte
	_, _ = rand.Read(random[:]) // never fails, it ends the process instead
	return hex.EncodeToString(random[:])
}

func readMessage(said *chatMessage) (message model.Message, system bool, refused *Error) {
	message, refused = readContent(said.Content)
	images := message.Images
	message.Images = nil
	switch {
	case rawjson.IsNull(said.CacheControl):
	case message.Content == "" && len(images) > 0:
		images[len(images)-1].Cache = said.CacheControl
	default:
		message.Cache = append(message.Cache, model.CachePoint{At: len(message.Content), Control: said.CacheControl})
	}
	switch {
	case refused != nil:
		return message, false, refused
	case len(images) > 0 && said.Role != "user":
		return message, false, invalid("messages", "pictures must be in messages of role user for this model")
	case said.Name != "" && said.Role != "tool":
		return message, false, invalid("messages", "a message's `name` is not supported by this model")
	case !rawjson.IsNull(said.Audio), !rawjson.IsNull(said.FunctionCall), said.Role == "function":
		return message, false, invalid("messages", "audio and function_call in messages, and the role function, are not supported by this model")
	}
	switch said.Role {
	case "system", "developer":
		return message, true, nil
	case "user":
		message.Role, message.Images = model.User, images
	case "assistant":
		message.Role = model.Assistant
		if message.Content == "" {
			message.Content = said.Refusal
		}
		for _, call := range said.ToolCalls {
			if call.Type != "" && call.Type != "function" {
				return message, false, invalid("messages", "tool calls of type "+shorten(call.Type)+" are not supported by this model")
			}
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
func readContent(raw json.RawMessage) (message model.Message, refused *Error) {
	if rawjson.IsNull(raw) || json.Unmarshal(raw, &message.Content) == nil {
		return message, nil
	}
	var parts []struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		Refusal  string `json:"refusal"`
		ImageURL struct {
			URL    string `json:"url"`
			Detail string `json:"detail"`
		} `json:"image_url"`
		CacheControl json.RawMessage `json:"cache_control"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		return message, invalid("messages", "a message's content must be a string or an array of parts")
	}
	var text strings.Builder
	spoken := false
	for _, part := range parts {
		if rawjson.IsNull(part.CacheControl) {
			part.CacheControl = nil
		}
		switch part.Type {
		case "text", "refusal":
			if spoken {
				text.WriteByte('\n')
			}
			spoken = true
			text.WriteString(part.Text)
			text.WriteString(part.Refusal)
			if part.CacheControl != nil {
				message.Cache = append(message.Cache, model.CachePoint{At: text.Len(), Control: part.CacheControl})
			}
		case "image_url":
			image, ok := readImage(part.ImageURL.URL)
			if !ok {
				return message, invalid("messages",
					"a picture must be an http or https URL, or a data URL of type image/png, image/jpeg, image/gif or image/webp, for this model")
			}
			image.Detail, image.Cache = part.ImageURL.Detail, part.CacheControl
			message.Images = append(message.Images, image)
		default:
			return message, invalid("messages", "content parts of type "+shorten(part.Type)+" are not supported by this model")
		}
	}
	message.Content = text.String()
	return message, nil
}

// readImage takes a picture, or where the provider finds it: nobody here fetches it. What its bytes are counts, and else what is said of them.
func readImage(address string) (model.Image, bool) {
	if where, err := url.Parse(address); err == nil && (where.Scheme == "https" || where.Scheme == "http") && where.Host != "" {
		return model.Image{URL: address}, true
	}
	head, encoded, found := strings.Cut(address, ",")
	scheme, declared, _ := strings.Cut(strings.ToLower(head), ":")
	declared, packed := strings.CutSuffix(strings.TrimSpace(declared), ";base64")
	if !found || scheme != "data" || !packed {
		return model.Image{}, false
	}
	data, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(encoded, "= \r\n"))
	declared, _, _ = strings.Cut(declared, ";")
	for _, kind := range []string{http.DetectContentType(data), strings.Replace(strings.TrimSpace(declared), "/jpg", "/jpeg", 1)} {
		if model.CanShow(kind) {
			return model.Image{MIME: kind, Data: data}, err == nil
		}
	}
	return model.Image{}, false
}

func readTools(raw []byte) ([]model.Tool, *Error) {
	if raw == nil {
		return nil, nil
	}
	if !rawjson.Modest(raw, maxDepth, maxValues) {
		return nil, invalid("tools", "`tools` nest too deep or have too many parts for this model")
	}
	var tools []struct {
		Type         string          `json:"type"`
		CacheControl json.RawMessage `json:"cache_control"`
		Function     struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Parameters  json.RawMessage `json:"parameters"`
			Strict      *bool           `json:"strict"`
			// CacheControl is put here, too.
			CacheControl json.RawMessage `json:"cache_control"`
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
		one := model.Tool{Name: tool.Function.Name, Description: tool.Function.Description, Strict: tool.Function.Strict}
		if !rawjson.IsNull(tool.Function.Parameters) {
			one.Schema = tool.Function.Parameters
		}
		for _, control := range []json.RawMessage{tool.Function.CacheControl, tool.CacheControl} {
			if !rawjson.IsNull(control) {
				one.Cache = control
			}
		}
		known = append(known, one)
	}
	return known, nil
}
