//! Workgroups in reverse order, by a rewrite of the shader's text.

/// The module with workgroup i doing what workgroup count − 1 − i would do, along every axis.
pub(super) fn reverse(source: &str) -> String {
    if source.contains("@builtin(workgroup_id) wg: vec3<u32>,\n    @builtin(num_workgroups)") {
        // The passes over words of C: every thread finds its word from its workgroup's number.
        return source.replacen(
            "    let word = (wg.y * groups.x + wg.x)",
            "    let word = ((groups.y - 1u - wg.y) * groups.x + groups.x - 1u - wg.x)",
            1,
        );
    }
    if source.contains("@builtin(global_invocation_id) id: vec3<u32>") {
        return source.replacen(
            "fn main(@builtin(global_invocation_id) id: vec3<u32>) {",
            "fn main(@builtin(workgroup_id) wg_: vec3<u32>, \
                 @builtin(local_invocation_id) lid_: vec3<u32>, \
                 @builtin(num_workgroups) groups_: vec3<u32>) {\n    \
                 let id = (groups_ - 1u - wg_) * vec3<u32>(BN, BM, 1u) + lid_;",
            1,
        );
    }
    let Some(start) = source.find("@builtin(workgroup_id) wg: vec3<u32>,") else {
        return source.to_owned();
    };
    let Some(body) = source[start..].find(") {\n") else {
        return source.to_owned();
    };
    let (head, tail) = source.split_at(start + body + ") {\n".len());
    let head = head.replacen(
        "@builtin(workgroup_id) wg: vec3<u32>,",
        "@builtin(workgroup_id) wg_: vec3<u32>,\n    @builtin(num_workgroups) groups_: vec3<u32>,",
        1,
    );
    format!("{head}    let wg = groups_ - 1u - wg_;\n{tail}")
}
