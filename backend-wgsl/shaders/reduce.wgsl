// Adds up the slices that K was cut into, or the parts of a block, in order, and stores what becomes
// of the sums.
//
// A workgroup owns OUTPUTS outputs of WIDE elements: 1, or 4 neighbours of a row. GROUPS threads share
// an output: each adds every GROUPS-th slice, and the first adds what the others found, always in the
// same order, so that two runs give one result.

var<workgroup> part: array<array<Sum, OUTPUTS>, GROUPS>;

@compute @workgroup_size(OUTPUTS, GROUPS)
fn main(
    @builtin(workgroup_id) wg: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_id) id: vec3<u32>,
) {
    let outputs = p.batch * p.m * p.n / WIDE;
    let e = (wg.y * groups.x + wg.x) * OUTPUTS + id.x;
    let first = e * WIDE;
    var sum = Sum();
    if (e < outputs) {
        let slices = slices_at(first / (p.m * p.n), first / p.n % p.m, first % p.n);
        for (var slice = id.y; slice < slices; slice += GROUPS) {
            sum += sums[slice * outputs + e];
        }
    }
    part[id.y][id.x] = sum;
    workgroupBarrier();
    if (id.y == 0u && e < outputs) {
        for (var group = 1u; group < GROUPS; group += 1u) {
            sum += part[group][id.x];
        }
        store_c(first / (p.m * p.n), first / p.n % p.m, first % p.n, sum);
    }
}
