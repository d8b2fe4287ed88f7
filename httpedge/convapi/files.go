package convapi

import (
	"cmp"
	"context"
	"errors"
	"time"

	"parley/actors/core/attachment"
	"parley/actors/core/failure"
	"parley/httpedge/convapi/body"
	"parley/httpedge/endpoint"
	"parley/httpedge/filing"
	"parley/httpedge/resource"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// fileRoutes declares the routes of files.
func (a *API) fileRoutes() []endpoint.Route {
	const (
		notFound    = failurepb.Code_NOT_FOUND
		forbidden   = failurepb.Code_FORBIDDEN
		invalid     = failurepb.Code_VALIDATION
		noFiles     = failurepb.Code_ATTACHMENTS_DISABLED
		tooMany     = failurepb.Code_TOO_MANY_FILES
		badType     = failurepb.Code_UNSUPPORTED_FILE_TYPE
		storageFull = failurepb.Code_STORAGE_FULL
		storageFail = failurepb.Code_STORAGE_FAILED
	)
	files, slow, o := endpoint.Tag("Files"), endpoint.Timeout(a.config.TransferTimeout), body.Files()
	return []endpoint.Route{
		resource.List(o, "GET /conversations/{id}/files", "conversation:read", a.listFiles,
			files, endpoint.StaleReads(), endpoint.Summary("List the files of a conversation"),
			endpoint.Errors(invalid, forbidden, notFound)),
		endpoint.OnUpload("POST /files", "file:write", a.uploadFile,
			files, slow, endpoint.Summary("Store a file: its bytes as the body, or JSON with base64"), endpoint.Status(201),
			endpoint.MaxBody(a.config.MaxFileBody),
			endpoint.Errors(invalid, forbidden, noFiles, notFound, tooMany, badType, storageFull, storageFail)),
		o.Bare().Read("GET /files/{fileId}", "file:read", "getFile", a.getFile,
			files, endpoint.Summary("Read a file's record"), endpoint.Errors(invalid, forbidden, notFound)),
		endpoint.OnBytes("GET /files/{fileId}/content", "file:read", a.downloadFile,
			files, slow, endpoint.Summary("Read a file's bytes, or a range of them"), endpoint.Media("*/*"),
			endpoint.Ranged(), endpoint.Errors(invalid, forbidden, notFound)),
		o.Delete("DELETE /files/{fileId}", "file:write", a.deleteFile,
			files, endpoint.Summary("Remove a file"),
			endpoint.Errors(invalid, forbidden, notFound, storageFull, storageFail)),
	}
}

func (a *API) listFiles(ctx context.Context, in *conversationIn) ([]*conversationpb.File, error) {
	state, err := a.readable(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return filing.Kept(state), nil
}

type uploadFileIn struct {
	Name           string        `query:"name" doc:"Name of the file; required when the body is its bytes"`
	ConversationID string        `query:"conversationId" doc:"Conversation that gets the file, when the body is its bytes"`
	MimeType       string        `query:"mimeType" doc:"Type in place of the Content-Type; the stored type is told from the bytes"`
	File           *fileInput    `json:"file" required:"true"`
	Conversation   string        `json:"conversationId" doc:"Conversation that gets the file; without it the file is its uploader's alone"`
	Metadata       body.Metadata `json:"metadata"`

	form bool // the body is a multipart form
}

// Validate implements endpoint.Validator.
func (in *uploadFileIn) Validate() *failure.Failure {
	if in.form {
		return failure.New(failurepb.Code_VALIDATION, failure.FormNotTaken)
	}
	return nil
}

// TakesRaw implements endpoint.RawBody. A raw body that is itself JSON is recognised by the name in the query.
func (in *uploadFileIn) TakesRaw(contentType string) bool {
	media := filing.MediaType(contentType)
	in.form = media == "multipart/form-data"
	return media != "" && (media != "application/json" || in.Name != "")
}

// uploadFile stores a file in a conversation, or one that belongs only to its uploader.
func (a *API) uploadFile(ctx context.Context, in *uploadFileIn, upload *endpoint.Upload) (*body.FileEnvelope, error) {
	incoming, err := in.incoming(upload)
	if err != nil {
		return nil, err
	}
	conversation := cmp.Or(in.Conversation, in.ConversationID)
	if conversation == "" {
		loose, refused := a.storeLoose(ctx, incoming)
		return body.EnvelopeOf(loose), refused
	}
	state, err := a.readable(ctx, conversation)
	if err != nil {
		return nil, err
	}
	file, err := a.filer.StoreIn(ctx, a.command(ctx, state.GetId()), state, a.agentOf(state), incoming)
	return body.EnvelopeOf(file), err
}

// incoming returns the file from either form of body.
func (in *uploadFileIn) incoming(upload *endpoint.Upload) (*filing.Incoming, error) {
	if upload == nil {
		if in.File == nil {
			return nil, failure.New(failurepb.Code_VALIDATION, failure.Required).In("file")
		}
		incoming, refused := in.File.incoming()
		if refused != nil {
			return nil, refused
		}
		incoming.Metadata = in.Metadata
		return incoming, nil
	}
	name, refused := filing.CleanName(in.Name)
	if refused != nil {
		return nil, refused
	}
	return &filing.Incoming{
		Name: name, Declared: cmp.Or(in.MimeType, upload.ContentType), Body: upload.Body, Length: upload.Length,
	}, nil
}

// incoming decodes a file that came as base64.
func (in *fileInput) incoming() (*filing.Incoming, *failure.Failure) {
	return filing.Decode(in.Name, in.Content, in.MimeType)
}

type fileIn struct {
	ID string `path:"fileId"`
}

func (a *API) getFile(ctx context.Context, id string) (*conversationpb.File, error) {
	file, _, err := a.readableFile(ctx, id)
	return file, err
}

// readableFile returns a file's record if the caller may see it, and the conversation that it belongs to, if any.
func (a *API) readableFile(ctx context.Context, id string) (*conversationpb.File, *conversationpb.State, error) {
	if !plausible(id) {
		return nil, nil, notFound(failure.FileNotFound)
	}
	file, err := a.files.File(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	var state *conversationpb.State
	// Access to a file without a conversation follows the rule for conversations.
	owner := &conversationpb.State{TenantId: file.GetTenantId(), ProjectId: file.GetProjectId(), UserId: file.GetUserId()}
	if file.GetConversationId() != "" {
		state, err = a.state(ctx, file.GetConversationId())
		owner = state
	}
	if err == nil {
		err = access(ctx, owner)
	}
	if err == nil && attachment.Expired(file, time.Now().UnixMilli()) || isNotFound(err) {
		return nil, nil, notFound(failure.FileNotFound)
	}
	return file, state, err
}

func isNotFound(err error) bool {
	var refused *failure.Failure
	return errors.As(err, &refused) && refused.Code == failurepb.Code_NOT_FOUND
}

// downloadFile answers with the bytes.
func (a *API) downloadFile(ctx context.Context, in *fileIn) (*endpoint.File, error) {
	file, _, err := a.readableFile(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return filing.Download(ctx, a.files, file), nil
}

// deleteFile removes a file; one of a conversation through the conversation's rules.
func (a *API) deleteFile(ctx context.Context, id string) error {
	file, state, err := a.readableFile(ctx, id)
	if err != nil {
		return err
	}
	if state == nil {
		return a.files.Delete(ctx, file.GetId())
	}
	command := a.command(ctx, state.GetId())
	command.Body = &conversationpb.Command_RemoveFile{RemoveFile: &conversationpb.RemoveFile{FileId: file.GetId()}}
	_, err = a.askUntilSettled(ctx, command)
	return err
}

// storeInline stores the bytes of files sent inline for a conversation. state nil = the conversation does not exist yet.
func (a *API) storeInline(
	ctx context.Context, id string, state *conversationpb.State, agent *agentpb.Agent, files []fileInput,
) ([]*conversationpb.File, error) {
	all := make([]*filing.Incoming, len(files))
	for i := range files {
		incoming, refused := files[i].incoming()
		if refused != nil {
			return nil, refused
		}
		all[i] = incoming
	}
	return a.filer.StoreAll(ctx, id, state, agent, all)
}

// storeLoose stores a file that belongs to the caller and not to a conversation.
func (a *API) storeLoose(ctx context.Context, incoming *filing.Incoming) (*conversationpb.File, error) {
	file, stored, err := a.filer.StoreBytes(ctx, a.ids.NewID("file"), nil, incoming)
	if err != nil {
		return nil, err
	}
	file.UserId = endpoint.CallerFrom(ctx).UserID
	if a.config.FileRetention > 0 {
		file.ExpiresAt = file.GetCreatedAt() + a.config.FileRetention.Milliseconds()
	}
	if err := a.files.Commit(ctx, file, stored); err != nil {
		return nil, err
	}
	return file, nil
}
