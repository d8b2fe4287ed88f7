package conversation

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/attachment"
	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

const (
	// maxFileIDs bounds what a message may name, before what it names is looked for.
	maxFileIDs = 1000
	// File records are part of every head write.
	maxFileName      = 1024 // bytes
	maxFileTypeBytes = 256
	maxFileMetadata  = 2 << 10

	day = 24 * time.Hour
)

// How files went.
const (
	filesDeleted = "deleted"
	filesExpired = "expired"
)

// addFile makes a stored blob a file of the conversation: the same append commits it. Who uploads again what is there
// already is answered with it.
func (r *request) addFile(c *conversationpb.AddFile) *machine.Failure {
	if f := r.access(); f != nil {
		return f
	}
	if known := r.known(c.GetFile().GetId()); known != nil {
		return r.reply(fileReply(known))
	}
	file, f := r.attach(c.GetFile(), c.GetAgent())
	if f != nil {
		return f
	}
	return r.reply(fileReply(file))
}

// known is the file of the conversation with the id, past its time or not; nil = there is none.
func (r *request) known(id string) *conversationpb.File {
	for _, file := range r.state.GetFiles() {
		if file.GetId() == id {
			return file
		}
	}
	return nil
}

// attach emits that a stored blob becomes a file of the conversation, unless its agent does not take it.
func (r *request) attach(stored *conversationpb.File, agent *agentpb.Agent) (*conversationpb.File, *machine.Failure) {
	if f := r.attachable(stored, agent); f != nil {
		return nil, f
	}
	metadata, f := machine.ClientObject("metadata", stored.GetMetadata(), maxFileMetadata)
	if f != nil {
		return nil, f
	}
	file := proto.CloneOf(stored)
	file.ConversationId, file.UserId, file.AgentId = r.state.GetId(), r.state.GetUserId(), r.state.GetAgentId()
	file.TenantId, file.ProjectId = r.state.GetTenantId(), r.state.GetProjectId()
	file.Metadata, file.CreatedAt, file.ExpiresAt = metadata, r.Now, 0
	if days := agent.GetCapabilities().GetAttachments().GetRetentionDays(); days > 0 {
		file.ExpiresAt = r.Now + (time.Duration(days) * day).Milliseconds()
	}
	r.emit("", &conversationpb.Event{Body: &conversationpb.Event_FileAdded{FileAdded: &conversationpb.FileAdded{File: file}}})
	return file, nil
}

func fileReply(file *conversationpb.File) *conversationpb.Reply {
	return &conversationpb.Reply{Body: &conversationpb.Reply_File{File: &conversationpb.FileReply{File: file}}}
}

// attachable refuses a file that the agent does not take, or that cannot be kept.
func (r *request) attachable(file *conversationpb.File, agent *agentpb.Agent) *machine.Failure {
	rules := agent.GetCapabilities().GetAttachments()
	if !rules.GetEnabled() {
		return failure.New(failurepb.Code_ATTACHMENTS_DISABLED, failure.FilesNotTaken)
	}
	name, kind := file.GetName(), file.GetMimeType()
	switch {
	case file.GetId() == "":
		return failure.New(failurepb.Code_VALIDATION, failure.FileWithoutID)
	case strings.TrimSpace(name) == "":
		return failure.New(failurepb.Code_VALIDATION, failure.FileWithoutName).In("name")
	case len(name) > maxFileName || !utf8.ValidString(name):
		return failure.New(failurepb.Code_VALIDATION, failure.BadText).In("name").Param("what", "a file's name").Param("most", maxFileName)
	case len(kind) > maxFileTypeBytes || !utf8.ValidString(kind):
		return failure.New(failurepb.Code_VALIDATION, failure.BadText).In("mimeType").Param("what", "a file's type").Param("most", maxFileTypeBytes)
	case file.GetSize() < 0:
		return failure.New(failurepb.Code_VALIDATION, failure.FileWithoutSize).In("size")
	case rules.GetMaxFileSize() > 0 && file.GetSize() > rules.GetMaxFileSize():
		return failure.New(failurepb.Code_VALIDATION, failure.FileTooLarge).
			With("maxFileSize", rules.GetMaxFileSize())
	case !attachment.Accepts(rules.GetAllowedMimeTypes(), kind):
		return failure.New(failurepb.Code_UNSUPPORTED_FILE_TYPE, failure.FileTypeNotTaken).In("mimeType").Param("type", kind).
			With("allowedMimeTypes", rules.GetAllowedMimeTypes())
	}
	most := attachment.MaxFiles(rules)
	if len(attachment.Kept(r.state.GetFiles(), r.Now)) >= most {
		return failure.New(failurepb.Code_TOO_MANY_FILES, failure.FilesFull).With("maxFiles", most)
	}
	return nil
}

// file is the file of the conversation with the id, nil if there is none, or it has expired.
func (r *request) file(id string) *conversationpb.File {
	if file := r.known(id); !attachment.Expired(file, r.Now) {
		return file
	}
	return nil
}

// fileRefs is what a message says of the files it names, each once.
func (r *request) fileRefs(ids []string) ([]*conversationpb.FileRef, *machine.Failure) {
	if len(ids) > maxFileIDs {
		return nil, failure.New(failurepb.Code_VALIDATION, failure.TooManyFileIDs).In("fileIds").Param("most", maxFileIDs)
	}
	var refs []*conversationpb.FileRef
	for _, id := range ids {
		if slices.ContainsFunc(refs, func(ref *conversationpb.FileRef) bool { return ref.GetId() == id }) {
			continue
		}
		file := r.file(id)
		if file == nil {
			return nil, failure.New(failurepb.Code_NOT_FOUND, failure.FileNotFound).With("fileId", clean(id))
		}
		refs = append(refs, file.Ref())
	}
	return refs, nil
}

// removeFile takes a file and its bytes away. Messages that named it still do.
func (r *request) removeFile(c *conversationpb.RemoveFile) *machine.Failure {
	if f := r.access(); f != nil {
		return f
	}
	if r.file(c.GetFileId()) == nil {
		return failure.New(failurepb.Code_NOT_FOUND, failure.FileNotFound)
	}
	r.filesGo(filesDeleted, c.GetFileId())
	return r.reply(stateReply(r.State()))
}

// expireFiles takes away what is kept no longer. It is part of what a Due command does.
func (r *request) expireFiles() {
	var ids []string
	for _, file := range r.state.GetFiles() {
		if attachment.Expired(file, r.Now) {
			ids = append(ids, file.GetId())
		}
	}
	if len(ids) > 0 {
		r.filesGo(filesExpired, ids...)
	}
}

func (r *request) filesGo(how string, ids ...string) {
	r.emit("", &conversationpb.Event{Body: &conversationpb.Event_FilesRemoved{
		FilesRemoved: &conversationpb.FilesRemoved{Ids: ids, How: how},
	}})
}
