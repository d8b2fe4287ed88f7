package conversationpb

// Ref is a file as a message names it.
func (x *File) Ref() *FileRef {
	return &FileRef{Id: x.GetId(), Name: x.GetName(), MimeType: x.GetMimeType(), Size: x.GetSize()}
}

// Refs are files as messages name them.
func Refs(files []*File) []*FileRef {
	refs := make([]*FileRef, len(files))
	for i, file := range files {
		refs[i] = file.Ref()
	}
	return refs
}
