package filing

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"mime"
	"path"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gabriel-vasile/mimetype" // tells a file's type from its bytes; the standard library knows no documents

	"parley/actors/core/attachment"
	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/httpedge/endpoint"
	"parley/httpedge/turns"
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

// Incoming is a file on its way in.
type Incoming struct {
	Name     string // as CleanName gives it
	Declared string // type, as the client says
	Body     io.Reader
	Length   int64  // declared, -1 = not known
	Metadata []byte // JSON object of the client

	mimeType string // type, as the bytes say; "" = not judged yet
}

// Judge tells the file's type from its first bytes and refuses what the agent does not take. agent nil = nobody's rules.
func (f *Incoming) Judge(agent *agentpb.Agent, limit int64) error {
	if f.mimeType != "" {
		return nil
	}
	switch {
	case f.Length > limit:
		return tooLargeFile(f.Name, limit)
	case len(f.Declared) > maxFileType:
		return failure.New(failurepb.Code_VALIDATION, failure.FileTypeTooLong).Param("most", maxFileType)
	case len(f.Metadata) > maxFileMetadata:
		return failure.New(failurepb.Code_VALIDATION, failure.FileMetadataTooLarge).Param("most", maxFileMetadata)
	}
	buffered := bufio.NewReaderSize(f.Body, endpoint.SniffBytes)
	head, err := buffered.Peek(endpoint.SniffBytes)
	if err != nil && !errors.Is(err, io.EOF) && len(head) == 0 {
		return err
	}
	if len(head) == 0 {
		return failure.New(failurepb.Code_VALIDATION, failure.FileEmpty).Param("name", f.Name)
	}
	f.Body = buffered
	f.mimeType = sniff(head, f.Declared)
	if agent != nil && !attachment.Accepts(agent.GetCapabilities().GetAttachments().GetAllowedMimeTypes(), f.mimeType) {
		return failure.New(failurepb.Code_UNSUPPORTED_FILE_TYPE, failure.FileTypeNotAccepted).Param("type", f.mimeType)
	}
	return nil
}

// sniff tells the type from the first bytes. Texts of all kinds look alike: there the client's word is taken, as long
// as it says text.
func sniff(head []byte, declared string) string {
	detected := MediaType(mimetype.Detect(head).String())
	if said := MediaType(declared); detected == "text/plain" && strings.HasPrefix(said, "text/") {
		return said
	}
	return detected
}

// MediaType is a content type without its parameters, in lower case; "" for what is none.
func MediaType(contentType string) string {
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) {
		return ""
	}
	return media
}

// Takes says whether a conversation has room for more files. The rules of conversations decide in the end.
func Takes(state *conversationpb.State, agent *agentpb.Agent, more int) *machine.Failure {
	if agent == nil {
		return failure.New(failurepb.Code_NOT_FOUND, failure.AgentNotFound)
	}
	attachments := agent.GetCapabilities().GetAttachments()
	if !attachments.GetEnabled() {
		return failure.New(failurepb.Code_ATTACHMENTS_DISABLED, failure.FilesDisabled)
	}
	limit := attachment.MaxFiles(attachments)
	if len(Kept(state))+more > limit {
		return failure.New(failurepb.Code_TOO_MANY_FILES, failure.NoRoomForFiles).With("maxFiles", limit)
	}
	return nil
}

// Kept is the files of a conversation without those whose time is over and that are still to be removed.
func Kept(state *conversationpb.State) []*conversationpb.File {
	return attachment.Kept(state.GetFiles(), time.Now().UnixMilli())
}

// Filer stores files for a surface.
type Filer struct {
	Asker turns.Asker
	Files endpoint.Files
	IDs   endpoint.IDs
	// MaxBytes is how large a file may be unless its agent says otherwise.
	MaxBytes int64
}

// Limit is how large a file may be, in bytes. agent nil = nobody's rules.
func (r Filer) Limit(agent *agentpb.Agent) int64 {
	if limit := agent.GetCapabilities().GetAttachments().GetMaxFileSize(); limit > 0 {
		return limit
	}
	return r.MaxBytes
}

func tooLargeFile(name string, limit int64) *machine.Failure {
	return failure.New(failurepb.Code_VALIDATION, failure.NamedFileTooLarge).Param("name", name).With("maxFileSize", limit)
}

// StoreIn stores a file and makes it one of the conversation's. The command is a new one of the caller, without body.
func (r Filer) StoreIn(
	ctx context.Context, command *conversationpb.Command, state *conversationpb.State, agent *agentpb.Agent, incoming *Incoming,
) (*conversationpb.File, error) {
	if refused := Takes(state, agent, 1); refused != nil {
		return nil, refused
	}
	file, _, err := r.StoreBytes(ctx, r.IDs.NewIDFor("file", state.GetId()), agent, incoming)
	if err != nil {
		return nil, err
	}
	file.ConversationId, file.AgentId, file.UserId = state.GetId(), state.GetAgentId(), state.GetUserId()
	command.Body = &conversationpb.Command_AddFile{AddFile: &conversationpb.AddFile{File: file, Agent: Rules(agent)}}
	reply, err := r.Asker.AskUntilSettled(ctx, command)
	if err != nil {
		if !turns.Gone(err) { // else it may have been added all the same
			r.drop(ctx, file.GetId())
		}
		return nil, err
	}
	return reply.GetFile().GetFile(), nil
}

// Examine looks at the files that come with a message before anything is stored. state nil = a conversation that is still to be.
func (r Filer) Examine(state *conversationpb.State, agent *agentpb.Agent, files []*Incoming) error {
	if refused := Takes(state, agent, len(files)); refused != nil {
		return refused
	}
	for _, incoming := range files {
		if err := incoming.Judge(agent, r.Limit(agent)); err != nil {
			return err
		}
	}
	return nil
}

// StoreAll stores the bytes of files that come with a message to a conversation. The message's command opens with the records
// (conversationpb.Opening), so that files and message are committed at once; what no command commits, storage drops after an hour.
// All files are looked at before the first is stored. state nil = a conversation that is still to be made.
func (r Filer) StoreAll(
	ctx context.Context, conversationID string, state *conversationpb.State, agent *agentpb.Agent, files []*Incoming,
) ([]*conversationpb.File, error) {
	if len(files) == 0 {
		return nil, nil
	}
	if err := r.Examine(state, agent, files); err != nil {
		return nil, err
	}
	stored := make([]*conversationpb.File, 0, len(files))
	for _, incoming := range files {
		file, _, err := r.StoreBytes(ctx, r.IDs.NewIDFor("file", conversationID), agent, incoming)
		if err != nil {
			r.dropAll(ctx, stored)
			return nil, err
		}
		stored = append(stored, file)
	}
	return stored, nil
}

// Drop removes the bytes of files whose command was refused. Any other end, and none, may have made them the conversation's.
func (r Filer) Drop(ctx context.Context, files []*conversationpb.File, ended error) {
	if turns.Refused(ended) {
		r.dropAll(ctx, files)
	}
}

func (r Filer) dropAll(ctx context.Context, files []*conversationpb.File) {
	for _, file := range files {
		r.drop(ctx, file.GetId())
	}
}

// Opening is what a command opens with to make files the conversation's; nil = there are none.
func Opening(files []*conversationpb.File, agent *agentpb.Agent) *conversationpb.Opening {
	if len(files) == 0 {
		return nil
	}
	return &conversationpb.Opening{Files: files, Agent: Rules(agent)}
}

// Rules is the part of an agent that the rules for files read; the rest, which holds secrets, does not leave the process.
func Rules(agent *agentpb.Agent) *agentpb.Agent {
	return &agentpb.Agent{Id: agent.GetId(), Capabilities: &agentpb.Capabilities{Attachments: agent.GetCapabilities().GetAttachments()}}
}

// StoreBytes judges a file and stores its bytes. The record is still to be committed.
func (r Filer) StoreBytes(
	ctx context.Context, id string, agent *agentpb.Agent, incoming *Incoming,
) (*conversationpb.File, endpoint.Stored, error) {
	limit := r.Limit(agent)
	if err := incoming.Judge(agent, limit); err != nil {
		return nil, endpoint.Stored{}, err
	}
	stored, err := r.Files.Store(ctx, id, incoming.Body, limit)
	if err != nil {
		r.drop(ctx, id)
		var refused *machine.Failure
		if errors.As(err, &refused) && refused.Code == failurepb.Code_TOO_LARGE {
			return nil, stored, tooLargeFile(incoming.Name, limit)
		}
		return nil, stored, err
	}
	caller := endpoint.CallerFrom(ctx)
	return &conversationpb.File{
		Id: id, Name: incoming.Name, MimeType: incoming.mimeType, Size: stored.Size, Sha256: stored.SHA256,
		StorageKey: storageKey(incoming.Name), Metadata: incoming.Metadata,
		TenantId: caller.TenantID, ProjectId: caller.ProjectID, CreatedAt: time.Now().UnixMilli(),
	}, stored, nil
}

// drop removes bytes that became no file. What it cannot remove is swept.
func (r Filer) drop(ctx context.Context, id string) {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTimeout)
	defer cancel()
	_ = r.Files.Delete(limited, id) // see above
}

// CleanName checks a name and drops the folders before it, which some clients send along.
func CleanName(name string) (string, *machine.Failure) {
	const most = 255
	name = strings.TrimSpace(name)
	if i := strings.LastIndexAny(name, `/\`); i >= 0 {
		name = name[i+1:]
	}
	control := strings.IndexFunc(name, func(r rune) bool { return unicode.IsControl(r) || r == utf8.RuneError }) >= 0
	switch {
	case name == "" || name == "." || name == "..":
		return "", failure.New(failurepb.Code_VALIDATION, failure.FileNameMissing)
	case control || len(name) > most:
		return "", failure.New(failurepb.Code_VALIDATION, failure.BadFileName).Param("most", most)
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
