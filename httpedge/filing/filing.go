package filing

import (
	"bufio"
	"bytes"
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

	"github.com/gabriel-vasile/mimetype" // detects a file's type from its bytes; the standard library knows no document formats
	"golang.org/x/net/html/charset"

	"parley/actors/core/attachment"
	"parley/actors/core/failure"
	"parley/actors/core/naming"
	"parley/actors/machine"
	"parley/httpedge/endpoint"
	"parley/httpedge/turns"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// cleanUpTimeout bounds the clean-up after a failure.
const cleanUpTimeout = 5 * time.Second

// Limits of a file's declared type and metadata, in bytes. The rules enforce the same ones for files in conversations.
const (
	maxFileType     = 256
	maxFileMetadata = 2 << 10
)

// Incoming is a file that is being uploaded.
type Incoming struct {
	Name     string // as returned by CleanName
	Declared string // media type that the client declared
	Body     io.Reader
	Length   int64  // declared, -1 = not known
	Metadata []byte // the client's JSON object

	mimeType string // detected type; "" = Judge was not called yet
}

// Judge detects the file's type from its first bytes and refuses types that the agent does not accept. agent nil = any type.
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
	f.mimeType = sniff(head, f.Declared, f.Name)
	if agent != nil && !attachment.Accepts(agent.GetCapabilities().GetAttachments().GetAllowedMimeTypes(), f.mimeType) {
		return failure.New(failurepb.Code_UNSUPPORTED_FILE_TYPE, failure.FileTypeNotAccepted).Param("type", f.mimeType)
	}
	return nil
}

// sniff detects the type from the first bytes. What they cannot tell is which text a text is: a note with commas is no table, and
// Markdown may begin with a tag. It is what it was declared as; where nothing was, what its name ends with, if it looks so too. The
// charset is named where it is not UTF-8.
func sniff(head []byte, declared, name string) string {
	detected := mimetype.Detect(head)
	kinds := []*mimetype.MIME{detected} // from the narrowest to the widest
	for kind := detected; kind.Parent() != nil; kind = kind.Parent() {
		kinds = append(kinds, kind.Parent())
	}
	isText := slices.ContainsFunc(kinds, func(kind *mimetype.MIME) bool { return kind.Is(plainText) })
	said, set := MediaType(declared), charsetOf(declared)
	if attachment.IsText(said) && !strings.HasPrefix(said, "image/") && (isText || !detected.Is("application/pdf") && legible(head, set)) {
		if set != "" {
			return said + "; charset=" + set
		}
		return said
	}
	ending := strings.ToLower(path.Ext(name))
	if !isText || ending == "" || said != "" && said != "application/octet-stream" {
		return MediaType(detected.String())
	}
	if ending == ".htm" || ending == ".xhtml" {
		ending = ".html"
	}
	for _, kind := range kinds {
		if kind.Extension() == ending {
			return MediaType(kind.String())
		}
	}
	return plainText
}

const plainText = "text/plain"

// charsetOf is the charset that a content type declares, empty for UTF-8, for ASCII, which is often said of UTF-8, and if it is not known.
func charsetOf(contentType string) string {
	_, params, _ := mime.ParseMediaType(contentType)
	label := strings.ToLower(params["charset"])
	_, name := charset.Lookup(label)
	if name == "utf-8" || name == "replacement" || strings.HasSuffix(label, "ascii") {
		return ""
	}
	return name
}

// legible says whether bytes are nothing but characters in a charset, whatever they look like beside: a note may begin like a picture.
func legible(head []byte, label string) bool {
	encoding, _ := charset.Lookup(cmp.Or(label, "utf-8"))
	text, err := encoding.NewDecoder().Bytes(head)
	text = bytes.TrimRight(text, "\uFFFD") // the head ends anywhere
	return err == nil && bytes.IndexFunc(text, func(r rune) bool {
		return r == utf8.RuneError || unicode.IsControl(r) && !strings.ContainsRune("\t\n\r\f\x1b", r)
	}) < 0
}

// MediaType is a content type without its parameters, in lower case; "" if it is invalid.
func MediaType(contentType string) string {
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) {
		return ""
	}
	return media
}

// Takes says whether a conversation has room for more files. It fails early; the rules of conversations decide.
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

// Kept returns the files of a conversation without those that have expired but are not removed yet.
func Kept(state *conversationpb.State) []*conversationpb.File {
	return attachment.Kept(state.GetFiles(), time.Now().UnixMilli())
}

// Filer stores files for a surface.
type Filer struct {
	Asker turns.Asker
	Files endpoint.Files
	IDs   endpoint.IDs
	// MaxBytes is the largest file, in bytes, when the agent sets no limit.
	MaxBytes int64
	// Counts says whether files are counted among those that are kept: every node of the cluster knows how. nil = they are not.
	Counts func() bool
}

// Limit is the largest file in bytes. agent nil = the surface's default.
func (r Filer) Limit(agent *agentpb.Agent) int64 {
	if limit := agent.GetCapabilities().GetAttachments().GetMaxFileSize(); limit > 0 {
		return limit
	}
	return r.MaxBytes
}

func tooLargeFile(name string, limit int64) *machine.Failure {
	return failure.New(failurepb.Code_VALIDATION, failure.NamedFileTooLarge).Param("name", name).With("maxFileSize", limit)
}

// StoreIn stores a file and adds it to the conversation. command is a new command of the caller, without a body.
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
	command.Body = &conversationpb.Command_AddFile{AddFile: &conversationpb.AddFile{File: file, Agent: agent.Rules()}}
	reply, err := r.Asker.AskUntilSettled(ctx, command)
	if err != nil {
		if !turns.Gone(err) { // otherwise it may have been added nevertheless
			r.drop(ctx, file.GetId())
		}
		return nil, err
	}
	return reply.GetFile().GetFile(), nil
}

// Examine checks a message's inline files before anything is stored. state nil = the conversation does not exist yet.
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

// StoreAll stores the bytes of a message's inline files. The message's command carries their records (conversationpb.Opening),
// so that files and message are committed together; storage drops bytes that no command commits after an hour. All files are
// checked before the first is stored. state nil = the conversation does not exist yet.
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

// Drop removes the bytes of files whose command was refused. After any other outcome they may belong to the conversation.
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

// Opening is the opening of a command that adds files to the conversation; nil = no files.
func Opening(files []*conversationpb.File, agent *agentpb.Agent) *conversationpb.Opening {
	if len(files) == 0 {
		return nil
	}
	return &conversationpb.Opening{Files: files, Agent: agent.Rules()}
}

// StoreBytes checks a file and stores its bytes. The caller commits the record.
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
	file := &conversationpb.File{
		Id: id, Name: incoming.Name, MimeType: incoming.mimeType, Size: stored.Size, Sha256: stored.SHA256,
		StorageKey: storageKey(incoming.Name), Metadata: incoming.Metadata,
		TenantId: caller.TenantID, ProjectId: caller.ProjectID, CreatedAt: time.Now().UnixMilli(),
	}
	if r.Counts != nil && r.Counts() {
		file.CountedFor = &caller.UserID
	}
	return file, stored, nil
}

// drop removes bytes without a record. Storage sweeps what it cannot remove.
func (r Filer) drop(ctx context.Context, id string) {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTimeout)
	defer cancel()
	_ = r.Files.Delete(limited, id) // see above
}

// CleanName checks a file name and strips the path that some clients send.
func CleanName(name string) (string, *machine.Failure) {
	const most = 255
	name = strings.TrimSpace(naming.Plain(name))
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

// storageKey is 32 random characters with the extension of the name.
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
