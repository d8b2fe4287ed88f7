package convapi

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"mime"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gabriel-vasile/mimetype" // tells a file's type from its bytes; the standard library knows no documents

	"parley/actors/machine"
	"parley/httpedge/endpoint"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// cleanUpTimeout bounds what is taken back after a failure.
const cleanUpTimeout = 5 * time.Second

// What a file says of itself, in bytes. The rules decide alike of files in conversations.
const (
	maxFileType     = 256
	maxFileMetadata = 2 << 10
)

// incomingFile is a file on its way in.
type incomingFile struct {
	name     string
	declared string // type, as the client says
	mimeType string // type, as the bytes say; "" = not judged yet
	body     io.Reader
	length   int64 // declared, -1 = not known
	metadata metadata
}

// judge tells the file's type from its first bytes and refuses what the agent does not take. agent nil = nobody's rules.
func (f *incomingFile) judge(agent *agentpb.Agent, limit int64) error {
	if f.mimeType != "" {
		return nil
	}
	switch {
	case f.length > limit:
		return tooLargeFile(f.name, limit)
	case len(f.declared) > maxFileType:
		return machine.Fail(failurepb.Code_VALIDATION, "the type of a file is at most %d bytes", maxFileType)
	case len(f.metadata) > maxFileMetadata:
		return machine.Fail(failurepb.Code_VALIDATION, "the metadata of a file is larger than %d bytes", maxFileMetadata)
	}
	buffered := bufio.NewReaderSize(f.body, endpoint.SniffBytes)
	head, err := buffered.Peek(endpoint.SniffBytes)
	if err != nil && !errors.Is(err, io.EOF) && len(head) == 0 {
		return err
	}
	if len(head) == 0 {
		return machine.Fail(failurepb.Code_VALIDATION, "file %q is empty", f.name)
	}
	f.body = buffered
	f.mimeType = sniff(head, f.declared)
	if agent != nil && !accepts(agent.GetCapabilities().GetAttachments().GetAllowedMimeTypes(), f.mimeType) {
		return machine.Fail(failurepb.Code_UNSUPPORTED_FILE_TYPE, "files of type %s are not accepted", f.mimeType)
	}
	return nil
}

// sniff tells the type from the first bytes. Texts of all kinds look alike: there the client's word is taken, as long
// as it says text.
func sniff(head []byte, declared string) string {
	detected := mediaType(mimetype.Detect(head).String())
	if said := mediaType(declared); detected == "text/plain" && strings.HasPrefix(said, "text/") {
		return said
	}
	return detected
}

// mediaType is a content type without its parameters, in lower case; "" for what is none.
func mediaType(contentType string) string {
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) {
		return ""
	}
	return media
}

// accepts says whether a type is among those allowed ("image/png", "image/*"); none allowed = all are. The rules decide
// alike; asking beforehand spares the bytes.
func accepts(allowed []string, mimeType string) bool {
	if len(allowed) == 0 {
		return true
	}
	for _, pattern := range allowed {
		pattern, _, _ = strings.Cut(pattern, ";")
		pattern = strings.ToLower(strings.TrimSpace(pattern))
		family, any := strings.CutSuffix(pattern, "/*")
		if pattern == mimeType || pattern == "*" || pattern == "*/*" || any && strings.HasPrefix(mimeType, family+"/") {
			return true
		}
	}
	return false
}

// takesFiles says whether a conversation has room for more files. The rules decide alike.
func takesFiles(state *conversationpb.State, agent *agentpb.Agent, more int) *machine.Failure {
	const usual = 10
	if agent == nil {
		return notFound("agent")
	}
	attachments := agent.GetCapabilities().GetAttachments()
	if !attachments.GetEnabled() {
		return machine.Fail(failurepb.Code_ATTACHMENTS_DISABLED, "the agent does not take files")
	}
	limit := cmp.Or(int(attachments.GetMaxFiles()), usual)
	if len(kept(state))+more > limit {
		return machine.Fail(failurepb.Code_TOO_MANY_FILES, "a conversation holds at most %d files", limit).With("maxFiles", limit)
	}
	return nil
}

// kept is the files of a conversation without those whose time is over and that are still to be removed.
func kept(state *conversationpb.State) []*conversationpb.File {
	now := time.Now()
	return slices.DeleteFunc(slices.Clone(state.GetFiles()), func(file *conversationpb.File) bool { return expired(file, now) })
}

// fileLimit is how large a file may be, in bytes.
func (a *API) fileLimit(agent *agentpb.Agent) int64 {
	if limit := agent.GetCapabilities().GetAttachments().GetMaxFileSize(); limit > 0 {
		return limit
	}
	return a.config.FileBytes
}

func tooLargeFile(name string, limit int64) *machine.Failure {
	return machine.Fail(failurepb.Code_VALIDATION, "file %q is larger than %d bytes", name, limit).With("maxFileSize", limit)
}

// storeIn stores a file and makes it one of the conversation's.
func (a *API) storeIn(
	ctx context.Context, state *conversationpb.State, agent *agentpb.Agent, incoming *incomingFile,
) (*conversationpb.File, error) {
	if failure := takesFiles(state, agent, 1); failure != nil {
		return nil, failure
	}
	file, _, err := a.storeBytes(ctx, a.ids.NewIDFor("file", state.GetId()), agent, incoming)
	if err != nil {
		return nil, err
	}
	file.ConversationId, file.AgentId, file.UserId = state.GetId(), state.GetAgentId(), state.GetUserId()
	command := a.command(ctx, state.GetId())
	command.Body = &conversationpb.Command_AddFile{AddFile: &conversationpb.AddFile{File: file, Agent: agent}}
	reply, err := a.askUntilSettled(ctx, command)
	if err != nil {
		if !gone(err) { // else it may have been added all the same
			a.dropBytes(ctx, file.GetId())
		}
		return nil, err
	}
	return reply.GetFile().GetFile(), nil
}

// storeLoose stores a file that belongs to the caller and to no conversation.
func (a *API) storeLoose(ctx context.Context, incoming *incomingFile) (*conversationpb.File, error) {
	file, stored, err := a.storeBytes(ctx, a.ids.NewID("file"), nil, incoming)
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

// storeBytes judges a file and stores its bytes. The record is still to be committed.
func (a *API) storeBytes(
	ctx context.Context, id string, agent *agentpb.Agent, incoming *incomingFile,
) (*conversationpb.File, endpoint.Stored, error) {
	limit := a.fileLimit(agent)
	if err := incoming.judge(agent, limit); err != nil {
		return nil, endpoint.Stored{}, err
	}
	stored, err := a.files.Store(ctx, id, incoming.body, limit)
	if err != nil {
		a.dropBytes(ctx, id)
		var failure *machine.Failure
		if errors.As(err, &failure) && failure.Code == failurepb.Code_TOO_LARGE {
			return nil, stored, tooLargeFile(incoming.name, limit)
		}
		return nil, stored, err
	}
	caller := endpoint.CallerFrom(ctx)
	return &conversationpb.File{
		Id: id, Name: incoming.name, MimeType: incoming.mimeType, Size: stored.Size, Sha256: stored.SHA256,
		StorageKey: storageKey(incoming.name), Metadata: incoming.metadata,
		TenantId: caller.TenantID, ProjectId: caller.ProjectID, CreatedAt: time.Now().UnixMilli(),
	}, stored, nil
}

// dropBytes removes bytes that became no file. What it cannot remove is swept.
func (a *API) dropBytes(ctx context.Context, id string) {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTimeout)
	defer cancel()
	_ = a.files.Delete(limited, id) // see above
}

// fileName checks a name and drops the folders before it, which some clients send along.
func fileName(name string) (string, *machine.Failure) {
	const most = 255
	name = strings.TrimSpace(name)
	if i := strings.LastIndexAny(name, `/\`); i >= 0 {
		name = name[i+1:]
	}
	control := strings.IndexFunc(name, func(r rune) bool { return unicode.IsControl(r) || r == utf8.RuneError }) >= 0
	switch {
	case name == "" || name == "." || name == "..":
		return "", machine.Fail(failurepb.Code_VALIDATION, "the name of a file is required")
	case control || len(name) > most:
		return "", machine.Fail(failurepb.Code_VALIDATION, "the name of a file must be plain text of at most %d bytes", most)
	}
	return name, nil
}

// storageKey is 32 random characters with the ending of the name.
func storageKey(name string) string {
	const longestEnding = 16
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails, it ends the process instead
	key := hex.EncodeToString(random[:])
	ending := path.Ext(name)
	for _, r := range strings.TrimPrefix(ending, ".") {
		if r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return key
		}
	}
	if len(ending) < 2 || len(ending) > longestEnding {
		return key
	}
	return key + strings.ToLower(ending)
}

// harmless says whether a browser may show a type in its own window: it runs nothing of it.
func harmless(mimeType string) bool {
	switch mimeType {
	case "image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp", "text/plain":
		return true
	}
	return strings.HasPrefix(mimeType, "audio/") || strings.HasPrefix(mimeType, "video/")
}

// contentTypeOfFile is the type that a download has. Texts are taken for UTF-8, which most are.
func contentTypeOfFile(file *conversationpb.File) string {
	mimeType := file.GetMimeType()
	switch {
	case mimeType == "":
		return "application/octet-stream"
	case strings.HasPrefix(mimeType, "text/"):
		return mimeType + "; charset=utf-8"
	}
	return mimeType
}
