package convapi

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/entity"
	"parley/actors/core/failure"
	"parley/httpedge/convapi/body"
	"parley/httpedge/endpoint"
	"parley/httpedge/export"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/nodepb"
)

// exportRoutes declares the export route.
func (a *API) exportRoutes() []endpoint.Route {
	return []endpoint.Route{
		endpoint.OnBytes("GET /conversations/{id}/export", "conversation:read", a.exportConversation,
			endpoint.Tag("Conversations"), endpoint.Summary("Read the whole conversation as a file"),
			endpoint.Timeout(a.config.TransferTimeout),
			endpoint.Media("text/markdown", "application/json", "text/html", "application/pdf"),
			endpoint.Errors(
				failurepb.Code_VALIDATION, failurepb.Code_FORBIDDEN, failurepb.Code_EXPORT_DISABLED,
				failurepb.Code_NOT_FOUND, failurepb.Code_EXPORT_FORMAT_UNSUPPORTED,
			)),
	}
}

type exportIn struct {
	ID          string `path:"id"`
	Format      string `query:"format" enum:"md,json,html,pdf" default:"md"`
	Tools       string `query:"tools" enum:"0,1" default:"0" doc:"1: with tool calls, where the agent permits it"`
	Locale      string `query:"locale" enum:"en,tr" default:"en"`
	Print       string `query:"print" enum:"0,1" default:"0" doc:"1: laid out for paper"`
	Disposition string `query:"disposition" enum:"attachment,inline" default:"attachment"`
}

// exportConversation renders the conversation while reading it.
func (a *API) exportConversation(ctx context.Context, in *exportIn) (*endpoint.File, error) {
	if !plausible(in.ID) {
		return nil, notFound(failure.ConversationNotFound)
	}
	source := &messageSource{a: a, ctx: ctx, id: in.ID, tools: in.Tools == "1"}
	if err := source.begin(); err != nil {
		return nil, err
	}
	if refused := mayExport(a.agentOf(source.state), in); refused != nil {
		return nil, refused
	}
	locale, _ := export.LocaleOf(in.Locale) // one of those that the input lists
	options := export.Options{Locale: locale, Tools: source.tools, Print: in.Print == "1"}
	file := &endpoint.File{Size: -1, Header: map[string]string{
		"Content-Disposition": endpoint.Disposition(in.Disposition, export.FileName(source.state, in.Format)),
		"Cache-Control":       "private, no-store",
	}}
	switch in.Format {
	case "json":
		file.ContentType = "application/json"
		file.Open = opened(export.Stream(&jsonExport{}, source.state, source.next))
	case "html":
		file.ContentType = "text/html; charset=utf-8"
		file.Header["Content-Security-Policy"] = export.Policy(options)
		file.Header["Referrer-Policy"] = "no-referrer"
		file.Open = opened(export.Stream(export.HTML(options), source.state, source.next))
	case "pdf":
		if a.pdf == nil {
			return nil, failure.New(failurepb.Code_EXPORT_FORMAT_UNSUPPORTED, failure.PDFNotMade)
		}
		options.Print = true
		file.ContentType = "application/pdf"
		page := export.Stream(export.HTML(options), source.state, source.next)
		file.Open = func(int64, int64) (io.ReadCloser, error) { return a.printed(ctx, page) }
	default:
		file.ContentType = "text/markdown; charset=utf-8"
		file.Open = opened(export.Stream(export.Markdown(options), source.state, source.next))
	}
	return file, nil
}

// mayExport checks the agent's switches. A conversation whose agent was deleted can still be exported by its owner, but without
// tool calls, which need the agent's permission.
func mayExport(agent *agentpb.Agent, in *exportIn) *failure.Failure {
	may := agent.GetExperience()
	switch {
	case agent == nil && in.Tools != "1":
		return nil
	case !may.GetExportEnabled():
		return failure.New(failurepb.Code_EXPORT_DISABLED, failure.ExportDisabled)
	case len(may.GetExportFormats()) > 0 && !slices.Contains(may.GetExportFormats(), in.Format):
		return failure.New(failurepb.Code_EXPORT_DISABLED, failure.ExportFormatDisabled).Param("format", in.Format)
	case in.Tools == "1" && !may.GetExportIncludeTools():
		return failure.New(failurepb.Code_EXPORT_DISABLED, failure.ExportToolsDisabled)
	}
	return nil
}

func opened(reader io.Reader) func(int64, int64) (io.ReadCloser, error) {
	return func(int64, int64) (io.ReadCloser, error) { return io.NopCloser(reader), nil }
}

// printed renders the PDF to an unlinked temporary file, which disappears when it is closed: an export that fails half way is an
// error instead of a truncated answer, and no export is held in memory.
func (a *API) printed(ctx context.Context, page io.Reader) (io.ReadCloser, error) {
	scratch, err := os.CreateTemp("", "parley-pdf-")
	if err != nil {
		return nil, err
	}
	_ = os.Remove(scratch.Name()) // where an open file cannot be removed, the system cleans it up
	err = a.pdf.PDF(ctx, page, scratch)
	if err == nil {
		_, err = scratch.Seek(0, io.SeekStart)
	}
	if err != nil {
		_ = scratch.Close() // it is discarded anyway
		if errors.Is(err, export.ErrTooLarge) {
			return nil, failure.New(failurepb.Code_TOO_LARGE, failure.PDFTooLarge)
		}
		return nil, err
	}
	return scratch, nil
}

// messageSource reads a conversation's messages page by page, oldest first.
type messageSource struct {
	a     *API
	ctx   context.Context //nolint:containedctx // of the request that the export answers
	id    string
	tools bool
	state *conversationpb.State
	first []*conversationpb.Message // already read
	read  int
	last  string // id of the newest message that was read
}

// begin reads the first page and the conversation's head, if the caller may see it.
func (s *messageSource) begin() error {
	page, err := s.page()
	if err != nil {
		return err
	}
	if err := access(s.ctx, page.State); err != nil {
		return err
	}
	s.state, s.first = page.State, page.Messages
	return nil
}

// page reads the messages after the last one read. Pages are small because each is held in memory, and messages may be
// large.
func (s *messageSource) page() (*nodepb.MessagesReply, error) {
	const most = 20
	query := &nodepb.MessagesQuery{Id: s.id, Limit: uint32(min(s.a.config.MessagePage, most))}
	if s.last != "" {
		query.After, query.Offset = s.last, -1
	}
	return entity.Read[*nodepb.MessagesReply](s.ctx, s.a.entities, query)
}

// next implements export.Pages. Messages added since the head was read are left out; when messages were replaced or removed
// the export fails, so that it never mixes two versions.
func (s *messageSource) next() ([]*conversationpb.Message, error) {
	messages := s.first
	s.first = nil
	left := int(s.state.GetMessageCount()) - s.read
	if left <= 0 {
		return nil, nil
	}
	if messages == nil {
		page, err := s.page()
		if err != nil {
			return nil, err
		}
		if page.State.GetRewritten() > s.state.GetLastSeq() {
			return nil, failure.New(failurepb.Code_UNAVAILABLE, failure.ExportOvertaken)
		}
		messages = page.Messages
	}
	messages = messages[:min(len(messages), left)]
	s.read += len(messages)
	if len(messages) > 0 {
		s.last = messages[len(messages)-1].GetId()
	}
	if s.tools {
		return messages, nil
	}
	bare := make([]*conversationpb.Message, len(messages))
	for i, message := range messages {
		bare[i] = withoutTools(message)
	}
	return bare, nil
}

// withoutTools is a message without its tool calls and their results.
func withoutTools(message *conversationpb.Message) *conversationpb.Message {
	if len(message.GetToolCalls())+len(message.GetPending()) == 0 {
		return message
	}
	bare, ok := proto.Clone(message).(*conversationpb.Message)
	if !ok {
		return nil // unreachable: a clone has the type of its original
	}
	bare.ToolCalls, bare.Pending = nil, nil
	return bare
}

// jsonExport is {conversation, messages} in the forms of the other routes.
type jsonExport struct {
	conversationID string
	messages       int
}

// Head implements export.Format.
func (j *jsonExport) Head(dst []byte, conversation *conversationpb.State) []byte {
	j.conversationID = conversation.GetId()
	dst = append(dst, `{"conversation":`...)
	dst = body.AppendConversation(dst, conversation)
	return append(dst, `,"messages":[`...)
}

// Message implements export.Format.
func (j *jsonExport) Message(dst []byte, message *conversationpb.Message) []byte {
	if j.messages++; j.messages > 1 {
		dst = append(dst, ',')
	}
	return body.AppendMessage(dst, j.conversationID, message)
}

// End implements export.Format.
func (j *jsonExport) End(dst []byte) []byte { return append(dst, ']', '}') }
