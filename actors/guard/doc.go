// Package guard asks shields (package actors/core/aegis) about what this server's agents read, call and say, and about calls of others:
// it brings what a shield needs of the world, and has its verdicts kept.
//
// Guardrails (package guardrail) are asked in the same two places: what people say to an agent passes them at the door, what its model says
// in the turn. They are pure; what they find is kept as verdicts, one for each guardrail and command or turn, without the texts.
//
// Guard judges one call. Door stands before the entities: what people and programs send to an agent with a shield passes it, so that
// what the shield takes out reaches neither log nor disk, and what it blocks begins nothing. Turns ask for the rest (package
// actors/turn): tool.pre before a call is journalled, so that its log has what is left of it; tool.post before its result is; retrieval.*
// for the text of documents; output.pre for each model call.
//
// A decision that was made stands when a turn goes on after a pause or a crash: what was blocked is journalled with its reason, what a
// person approved is not asked about again. The rest is judged once more by the shield of then, uncounted: one that has become stricter
// is heard. Rules do none of this: they keep two marks on a call, and do not let a remembered approval stand for one that a shield wants.
//
// A judge, which is a model, is asked at the same places, as the caller that caused the call, and anew for a call that is resumed or comes
// again: that a verdict was given before is not known. Judges are models and no agents: no shield judges a judge. What an agent says is held
// back as a whole where one judges output.pre in earnest: it is asked once, at the end, since half a sentence may mean another thing than all
// of it, and nothing that was streamed can be taken back. A turn that ends before that has said nothing.
//
// A shield that cannot be read or asked lets nothing through.
package guard
