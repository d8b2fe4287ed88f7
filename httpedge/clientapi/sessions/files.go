package sessions

import (
	"cmp"
	"context"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"reflect"
	"sync"
	"time"

	"parley/actors/core/attachment"
	"parley/actors/core/failure"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/endpoint"
	"parley/httpedge/endpoint/wire"
	"parley/httpedge/filing"
	"parley/httpedge/resource"
	"parley/httpedge/turns"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

const objectFile = "agent.session.file"

func (a *api) listSessionFiles(ctx context.Context, in *sessionIn) (*sessionFiles, error) {
	state, err := a.Session(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return &sessionFiles{filing.Kept(state)}, nil
}

type uploadSessionFileIn struct {
	ID       string                `path:"id"`
	Name     string                `query:"name" doc:"Name of the file; required when the body is its bytes"`
	MimeType string                `query:"mime_type" doc:"Type in place of the Content-Type; the stored type is told from the bytes"`
	File     *sentFileInput        `json:"file" required:"true"`
	Metadata handler.MetadataInput `json:"metadata"`

	media string
	form  string // boundary of a form
}

type sentFileInput struct {
	Name     string `json:"name"`
	Content  string `json:"content" doc:"base64"`
	MimeType string `json:"mime_type"`
}

// TakesRaw implements endpoint.RawBody. A file that is itself JSON is known by the name in the query.
func (in *uploadSessionFileIn) TakesRaw(contentType string) bool {
	in.media = filing.MediaType(contentType)
	if in.media == "multipart/form-data" {
		_, params, _ := mime.ParseMediaType(contentType) // a form without boundary is no form
		in.form = params["boundary"]
	}
	return in.media != "" && (in.media != "application/json" || in.Name != "")
}

// Validate implements endpoint.Validator.
func (in *uploadSessionFileIn) Validate() *failure.Failure { return in.Metadata.Failure }

// uploadSessionFile stores a file in a session.
func (a *api) uploadSessionFile(ctx context.Context, in *uploadSessionFileIn, upload *endpoint.Upload) (*fileRecord, error) {
	state, err := a.Session(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	agent, err := a.AgentOf(ctx, state)
	if err != nil {
		return nil, err
	}
	if refused := filing.Takes(state, agent, 1); refused != nil {
		return nil, handler.SessionFailure(refused)
	}
	incoming, err := in.incoming(upload)
	if err != nil {
		return nil, err
	}
	filer := a.Filer()
	if err = incoming.Judge(agent, filer.Limit(agent)); err != nil {
		return nil, handler.SessionFailure(err)
	}
	admitted, err := a.AdmitFiles(ctx, filer.Limit(agent), false, incoming)
	if err != nil {
		return nil, err
	}
	defer admitted.Over(false) // unless it was said before
	file, err := filer.StoreIn(ctx, a.Command(ctx, in.ID, "file"), state, agent, incoming)
	admitted.Over(err == nil || turns.Gone(err))
	if err != nil {
		return nil, handler.SessionFailure(err)
	}
	return &fileRecord{file}, nil
}

// incoming is the file of any form of body.
func (in *uploadSessionFileIn) incoming(upload *endpoint.Upload) (*filing.Incoming, error) {
	switch {
	case upload == nil && in.File == nil:
		return nil, handler.Invalid(failure.Required).In("file")
	case upload == nil:
		incoming, refused := filing.Decode(in.File.Name, in.File.Content, in.File.MimeType)
		if refused != nil {
			return nil, refused
		}
		incoming.Metadata = in.Metadata.Pairs
		return incoming, nil
	case in.media == "multipart/form-data":
		return in.fromForm(upload)
	}
	name, refused := filing.CleanName(in.Name)
	if refused != nil {
		return nil, refused
	}
	return &filing.Incoming{
		Name: name, Declared: cmp.Or(in.MimeType, upload.ContentType), Body: upload.Body, Length: upload.Length,
	}, nil
}

// fromForm is the file of a form. It is read while it comes.
func (in *uploadSessionFileIn) fromForm(upload *endpoint.Upload) (*filing.Incoming, error) {
	if in.form == "" {
		return nil, handler.Invalid(failure.FormWithoutBoundary)
	}
	reader := multipart.NewReader(upload.Body, in.form)
	part, err := nextFile(reader)
	if errors.Is(err, io.EOF) {
		return nil, handler.Invalid(failure.FormWithoutFile)
	}
	if err != nil {
		return nil, formFailure(err)
	}
	name, refused := filing.CleanName(cmp.Or(in.Name, part.FileName()))
	if refused != nil {
		return nil, refused
	}
	return &filing.Incoming{
		Name: name, Declared: cmp.Or(in.MimeType, part.Header.Get("Content-Type")), Body: &formBody{form: reader, part: part}, Length: -1,
	}, nil
}

// nextFile skips fields that are no files. io.EOF = the form is over.
func nextFile(form *multipart.Reader) (*multipart.Part, error) {
	const mostFields = 16
	for range mostFields {
		part, err := form.NextPart()
		if err != nil || part.FileName() != "" {
			return part, err
		}
	}
	return nil, handler.Invalid(failure.MalformedForm)
}

// formBody is the file of a form, which ends well only where the form has no other one.
type formBody struct {
	form *multipart.Reader
	part io.Reader
	err  error
}

// Read implements io.Reader.
func (b *formBody) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.part.Read(p)
	switch {
	case errors.Is(err, io.EOF):
		_, b.err = nextFile(b.form)
		switch {
		case b.err == nil:
			b.err = handler.Invalid(failure.FormWithFiles)
		case b.err != io.EOF: //nolint:errorlint // the end of a form is exactly this; that of bytes that are cut wraps it
			b.err = formFailure(b.err)
		}
	case err != nil:
		b.err = formFailure(err)
	}
	return n, b.err
}

// formFailure is what is wrong with a form, unless the connection broke.
func formFailure(err error) error {
	var refused *failure.Failure
	var problem *endpoint.Problem
	if errors.As(err, &refused) || errors.As(err, &problem) {
		return err
	}
	return handler.Invalid(failure.MalformedForm)
}

type sessionFileIn struct {
	ID     string `path:"id"`
	FileID string `path:"fileId"`
}

// sessionFile finds a file of a session that the caller may see.
func (a *api) sessionFile(ctx context.Context, in *sessionFileIn) (*conversationpb.File, error) {
	state, err := a.Session(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if !turns.Plausible(in.FileID) {
		return nil, fileNotFound()
	}
	for _, file := range state.GetFiles() {
		if file.GetId() == in.FileID && !attachment.Expired(file, time.Now().UnixMilli()) {
			return file, nil
		}
	}
	return nil, fileNotFound()
}

func fileNotFound() *failure.Failure {
	return failure.New(failurepb.Code_NOT_FOUND, failure.StoredFileMissing)
}

func (a *api) downloadSessionFile(ctx context.Context, in *sessionFileIn) (*endpoint.File, error) {
	file, err := a.sessionFile(ctx, in)
	if err != nil {
		return nil, err
	}
	return filing.Download(ctx, a.Files, file), nil
}

func (a *api) deleteSessionFile(ctx context.Context, in *sessionFileIn) (*deletedFile, error) {
	if _, err := a.sessionFile(ctx, in); err != nil {
		return nil, err
	}
	command := a.Command(ctx, in.ID, "remove file")
	command.Body = &conversationpb.Command_RemoveFile{RemoveFile: &conversationpb.RemoveFile{FileId: in.FileID}}
	if _, err := a.AskUntilSettled(ctx, command); err != nil {
		return nil, err
	}
	return &deletedFile{ID: in.FileID, Object: objectFile, Deleted: true}, nil
}

// files declares files of sessions.
var files = sync.OnceValue(func() *resource.Object[*conversationpb.File, struct{}] { //nolint:gochecknoglobals // declared once, never changed
	type record = *conversationpb.File
	o := resource.New[record, struct{}]("sessionFile", "SessionFile").Bare()
	o.Text("id", record.GetId)
	o.Text("object", func(record) string { return objectFile }).Enum(objectFile)
	o.Text("session_id", record.GetConversationId)
	o.Text("name", record.GetName)
	o.Text("mime_type", record.GetMimeType).Doc("Told from the bytes")
	o.Number("size", record.GetSize).Doc("Bytes")
	resource.Written[map[string]string](o, "metadata", func(dst []byte, f record) []byte { return appendPairs(dst, f.GetMetadata()) })
	o.NullableTime("created_at", record.GetCreatedAt)
	o.NullableTime("expires_at", record.GetExpiresAt)
	return o
})

// fileRecord is a file on the wire.
type fileRecord struct{ file *conversationpb.File }

// AppendJSON implements endpoint.Appender.
func (r *fileRecord) AppendJSON(dst []byte) []byte { return files().AppendJSON(dst, r.file) }

// Described implements openapi.Described.
func (*fileRecord) Described() (value any, nullable bool) {
	return reflect.Zero(files().Type()).Interface(), false
}

// sessionFiles is the files of a session.
type sessionFiles struct{ files []*conversationpb.File }

// AppendJSON implements endpoint.Appender.
func (l *sessionFiles) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"object":"list","data":`...)
	return append(wire.AppendList(dst, l.files, files().AppendJSON), '}')
}

// Described implements openapi.Described.
func (l *sessionFiles) Described() (value any, nullable bool) { return sessionFilesSchema{}, false }
